/** sandbox.net: every known bypass, tried by a plugin in its sandbox, through the runner. */
import { expect } from "vitest";
import { verifies } from "../support/verifies.ts";
import { ATTACKS } from "./egress-attacks.ts";
import { createSandboxedAttacks } from "./egress-sandboxed.ts";
import { startUpstream } from "./egress-upstream.ts";

verifies(
  "sandbox.net",
  "no bypass of the proxy succeeds from inside the sandbox, and each attempt is recorded on the invocation",
  async () => {
    const upstream = await startUpstream();
    const { attack, test_runner } = await createSandboxedAttacks(upstream.port);
    // Control: an allowed request succeeds, and a hit is detected.
    const served = await attack({}, async ({ send, tunnel, port }) => {
      const host = `api.acme.test:${port}`;
      await send(`GET http://${host}/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`).waitFor(/ok$/);
      await (await tunnel("api.acme.test", `GET /evil HTTP/1.1\r\nHost: ${host}\r\n\r\n`)).waitFor(/ok$/);
    });
    expect(served).toBeNull();
    expect(upstream.hits.splice(0)).toHaveLength(1);

    expect(ATTACKS.length).toBeGreaterThanOrEqual(60);
    const problems: string[] = [];
    for (const { name, reason, host, options = {}, run } of ATTACKS) {
      const record = await attack(options, run);
      const refusals = record?.refusals ?? [];
      if (!refusals.some((refusal) => refusal.reason === reason))
        problems.push(`${name}: not refused as ${reason}`);
      if (host !== undefined && !refusals.some((refusal) => refusal.host === host))
        problems.push(`${name}: ${host} is not on the record`);
      if (upstream.hits.length > 0) problems.push(`${name}: ${upstream.hits.splice(0).join(", ")}`);
    }
    expect(problems).toEqual([]);
    expect(test_runner.runner.health().processes).toBeLessThanOrEqual(1);
  },
  180_000,
);
