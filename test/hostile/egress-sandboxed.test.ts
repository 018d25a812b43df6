/** sandbox.net from inside: every bypass that we know, by a plugin in its sandbox, through the runner. */
import { expect } from "vitest";
import { verifies } from "../support/verifies.ts";
import { ATTACKS } from "./egress-attacks.ts";
import { openSandboxed } from "./egress-sandboxed.ts";
import { openOutside } from "./egress-world.ts";

verifies(
  "sandbox.net",
  "no bypass of the proxy succeeds from inside the sandbox, and each attempt is recorded on the invocation",
  async () => {
    const outside = await openOutside();
    const { attack, rig } = await openSandboxed(outside.port);
    // Void if not: what is allowed gets through, and the alarm works.
    const served = await attack({}, async ({ send, tunnel, port }) => {
      const host = `api.acme.test:${port}`;
      await send(`GET http://${host}/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`).waitFor(/ok$/);
      await (await tunnel("api.acme.test", `GET /evil HTTP/1.1\r\nHost: ${host}\r\n\r\n`)).waitFor(/ok$/);
    });
    expect(served).toBeNull();
    expect(outside.hits.splice(0)).toHaveLength(1);

    expect(ATTACKS.length).toBeGreaterThanOrEqual(60);
    const wrong: string[] = [];
    for (const { name, reason, host, world = {}, run } of ATTACKS) {
      const record = await attack(world, run);
      const refusals = record?.refusals ?? [];
      if (!refusals.some((one) => one.reason === reason)) wrong.push(`${name}: not refused as ${reason}`);
      if (host !== undefined && !refusals.some((one) => one.host === host))
        wrong.push(`${name}: ${host} is not on the record`);
      if (outside.hits.length > 0) wrong.push(`${name}: ${outside.hits.splice(0).join(", ")}`);
    }
    expect(wrong).toEqual([]);
    expect(rig.runner.health().processes).toBeLessThanOrEqual(1);
  },
  180_000,
);
