/** Common clients inside a sandbox: its egress listeners are the only route, and only to allowed destinations. */
import { createServer } from "node:net";
import { expect, onTestFinished } from "vitest";
import { listen } from "../../packages/runner/test/support/loopback.ts";
import { verifies } from "../support/verifies.ts";
import { createSandboxedAttacks, type SandboxedAttacks } from "./egress-sandboxed.ts";
import { ownAddress, startUpstream } from "./egress-upstream.ts";

async function runInside(
  { run }: SandboxedAttacks,
  options: object,
  change: Parameters<SandboxedAttacks["run"]>[1],
): Promise<{ output: unknown; refused: string[] }> {
  const program = ["/usr/bin/python3", "/plugin/egress-inside.py", JSON.stringify(options)];
  const { stdout, stderr, egress } = await run(program, change);
  expect(stderr).toBe("");
  const refused = (egress?.refusals ?? []).map(({ host, reason }) => `${host} ${reason}`);
  return { output: JSON.parse(stdout), refused };
}

verifies(
  "sandbox.net",
  "reaches only allowed hosts, through the proxy and with clients that ignore the proxy variables",
  async () => {
    const { port, hits } = await startUpstream();
    const abstract = `backplane-${process.pid}-${Math.random().toString(36).slice(2)}`;
    const unix = createServer((socket) => {
      hits.push("unix");
      socket.destroy();
    });
    await new Promise<void>((resolve) => unix.listen(`\0${abstract}`, resolve));
    onTestFinished(() => void unix.close());
    const sandboxed = await createSandboxedAttacks(port, ["egress-inside.py"]);
    const options = { name: "api.acme.test", port, addresses: [ownAddress()], abstract };
    const grant = { network: "egress" as const, allowed_domains: [`api.acme.test:${port}`] };
    for (const name of ["isolated", "worker"] as const) {
      const { output, refused } = await runInside(sandboxed, options, { class: name, grant });
      expect(output).toEqual({
        served: { proxy: "ok", transparent: "ok", curl: "ok", "curl-direct": "ok" },
        hits: [],
        tries: 17,
      });
      expect(hits).toEqual([]);
      expect(refused).toEqual(
        expect.arrayContaining([
          "127.0.0.1 address.literal",
          "127.88.0.1 address.literal",
          "api.acme.test host.mismatch",
          "evil.test domain.not_allowed",
        ]),
      );
    }
  },
  60_000,
);

verifies(
  "delegation.reach",
  "without network, reaches only the gateway's delegated routes, with the token",
  async () => {
    const requests: string[] = [];
    const { port } = await listen((socket) => {
      socket.on("data", (chunk: Buffer) => {
        requests.push(chunk.toString().split(" ", 2).join(" "));
        socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
      });
    });
    const base_url = `http://127.0.0.1:${port}`;
    const sandboxed = await createSandboxedAttacks(port, ["egress-inside.py"], { base_url });
    const scopes = ["sessions:read" as const];
    const { output, refused } = await runInside(
      sandboxed,
      { gateway: base_url },
      { grant: { gateway_api_scopes: scopes } },
    );
    expect(output).toEqual({
      "/v1/sessions vai_dlg_x": 200,
      "/v1/sessions bpk_x": 403,
      "/metrics vai_dlg_x": 403,
    });
    expect(requests).toEqual(["GET /v1/sessions"]);
    expect(refused).toEqual(["127.0.0.1 gateway.no_token", "127.0.0.1 gateway.route"]);
  },
  60_000,
);
