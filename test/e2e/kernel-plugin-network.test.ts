/** net.fetch of kernel plugins: only named hosts, hosted or inline, and refusals are recorded on the call. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Invocation } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";

let gateway: TestGateway;
let server: Server;
let address: string;
let folder: string;
const request_paths: string[] = [];

const PLUGIN = `export const plugin = {
  name: "looker", version: "1.0.0", category: "tool", subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool({
    name: "look", description: "Asks for a page.", parameters: { type: "object" }, effect_class: "read_only",
    async run({ urls }, call) {
      const answers = [];
      for (const url of urls) {
        answers.push(await ctx.service("net.fetch", { url }, call.as).then(({ body }) => body, ({ code }) => code));
      }
      return { ok: true, brief: "looked", display: { kind: "json", data: { pid: process.pid, answers } } };
    },
  }),
};
`;

beforeAll(async () => {
  server = createServer((request, response) => {
    request_paths.push(request.url!);
    response.end("from outside");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  address = `localhost:${(server.address() as AddressInfo).port}`;
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${address}"]\n`);
  gateway = await startTestGateway({ home });
  folder = mkdtempSync(join(tmpdir(), "backplane-kernel-plugin-"));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "plugin.mjs"), PLUGIN);
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({
      name: "looker",
      version: "1.0.0",
      type: "module",
      "yaya.plugins.v1": { looker: { category: "tool", module: "./plugin.mjs" } },
    }),
  );
  const installed = await gateway.cli("plugin", "install", folder, "--yes");
  expect(installed.code, installed.stderr).toBe(0);
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function fetchFromPlugin(
  urls: string[],
): Promise<{ pid: number; answers: string[]; record: Invocation }> {
  const call = { export_id: "look", input: { urls } };
  const { body } = await gateway.http<Invocation>("POST", "/v1/invocations?wait=30", call);
  expect(body, JSON.stringify(body)).toMatchObject({ status: "succeeded" });
  const record = (await gateway.http<Invocation>("GET", `/v1/invocations/${body.id}`)).body;
  const { structured_output } = body.result as unknown as {
    structured_output: { display: { data: { pid: number; answers: string[] } } };
  };
  return { ...structured_output.display.data, record };
}

test("reaches only hosts that an admin named, in its own process and inline", async () => {
  const url = `http://${address}/x`;
  expect((await fetchFromPlugin([url])).answers).toEqual(["policy.denied"]);
  const allowed = await gateway.cli(
    "config",
    "set",
    "plugin.looker.allowed_domains",
    JSON.stringify([address]),
  );
  expect(allowed.code, allowed.stderr).toBe(0);
  for (const mode of ["hosted", "inline"]) {
    if (mode === "inline") expect((await gateway.cli("plugin", "trust", "looker", "--yes")).code).toBe(0);
    const { pid, answers, record } = await fetchFromPlugin([
      url,
      "http://evil.test/",
      "http://169.254.169.254/",
    ]);
    expect(answers).toEqual(["from outside", "policy.denied", "policy.denied"]);
    expect(pid === gateway.pid).toBe(mode === "inline");
    expect(record.egress).toMatchObject({
      refused: 2,
      refusals: [
        { host: "evil.test", port: 80, reason: "domain.not_allowed" },
        { host: "169.254.169.254", port: 80, reason: "address.literal" },
      ],
    });
  }
  expect(request_paths).toEqual(["/x", "/x"]);
}, 60_000);
