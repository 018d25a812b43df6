/** The master key is rotated on a running gateway, across a kill, and the old key is removed. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, writePluginFolder } from "../support/plugins/plugin-folder.ts";

const SECRET_COUNT = 250;
let gateway: TestGateway;
let home = "";
beforeAll(async () => {
  gateway = await startTestGateway();
  home = gateway.home;
});
afterAll(() => gateway.dispose());

const keyIds = () =>
  readFileSync(join(home, "secret.key"), "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(":")[0]!);

/** Returns the length of its secret, which shows that the right one was decrypted. */
const PLUGIN = `#!/bin/sh
IFS= read -r hello
printf '%s\\n' '{"type":"handshake","manifest":{"plugin_id":"acme/measure","plugin_version":"1.0.0","protocol_version":"rterm.plugin.v1","exposed_tools":["measure"],"capabilities":[]}}'
IFS= read -r request
id=$(printf '%s' "$request" | sed 's/.*"request_id":"\\([^"]*\\)".*/\\1/')
secret=$(printf '%s' "$request" | sed 's/.*"key":"\\([^"]*\\)".*/\\1/')
printf '{"type":"response","request_id":"%s","status":"ok","output":{"length":%d}}\\n' "$id" "\${#secret}"
`;

async function readSecretLength(): Promise<unknown> {
  const { body } = await gateway.http<{ result?: { structured_output: unknown } }>(
    "POST",
    "/v1/invocations?wait=20",
    { export_id: "measure" },
  );
  return body.result?.structured_output ?? body;
}

test("seals every secret again, even after a kill, so that the old key is not needed", async () => {
  for (let i = 0; i < SECRET_COUNT; i += 25) {
    const puts = Array.from({ length: 25 }, (_, j) =>
      gateway.http("PUT", `/v1/secrets/s${i + j}`, { value: `value-${i + j}-${"x".repeat(20)}` }),
    );
    for (const { status } of await Promise.all(puts)) expect(status).toBe(200);
  }
  await gateway.http("PUT", "/v1/secrets/key", { value: "seventeen letters" });
  const set = await gateway.http("PATCH", "/api/config", { values: { "llm.api_key": "sk-config" } });
  expect(set.status, JSON.stringify(set.body)).toBeLessThan(300);
  const folder = writePluginFolder({
    package_id: "acme/measure",
    protocol: "rterm.plugin.v1",
    entrypoint: ["sh", "./bin/plugin.sh"],
    files: { "bin/plugin.sh": PLUGIN },
    exports: [{ id: "measure", extra: '[exports.permissions]\nsecret_slots = ["key"]' }],
  });
  const bound = await installAndBind(gateway, folder, ["measure"]);
  const patched = await gateway.http("PATCH", `/v1/plugin-bindings/${bound.measure}`, {
    secrets: { key: "secret://org_local/key" },
  });
  expect(patched.status).toBe(200);
  expect(await readSecretLength()).toEqual({ length: 17 });

  const [first] = keyIds();
  const interrupted_rotation = gateway.http("POST", "/v1/secret-keys", {}).catch(() => null);
  await new Promise((resolve) => setTimeout(resolve, 15));
  await gateway.kill9();
  await interrupted_rotation;
  gateway = await startTestGateway({ home });
  const ids = keyIds();
  expect(ids[0]).toBe(first);
  expect(await readSecretLength()).toEqual({ length: 17 });

  const rotated = await gateway.cli("secret", "rotate-key", "--json");
  expect(rotated.code, rotated.stderr).toBe(0);
  const report = JSON.parse(rotated.stdout) as { key_id: string; unreadable: []; unused_keys: string[] };
  expect(report).toMatchObject({ unreadable: [], unused_keys: ids.toReversed() });
  expect(keyIds()).toEqual([...ids, report.key_id]);
  const again = await gateway.cli("secret", "rotate-key", "--reseal-only", "--json");
  expect(JSON.parse(again.stdout)).toMatchObject({ key_id: report.key_id, secrets: 0, config_values: 0 });

  await gateway.stop();
  const lines = readFileSync(join(home, "secret.key"), "utf8").trim().split("\n");
  writeFileSync(join(home, "secret.key"), `${lines.at(-1)}\n`);
  gateway = await startTestGateway({ home });
  expect(await readSecretLength()).toEqual({ length: 17 });
  const value = await gateway.cli("config", "get", "llm.api_key", "--show");
  expect(value.stdout).toContain("sk-config");
}, 90_000);

test("lets only the admin token rotate the key", async () => {
  const { body } = await gateway.http<{ token: string }>("POST", "/v1/keys", {
    name: "k",
    role: "admin",
    scopes: ["admin"],
  });
  const refused = await gateway.http(
    "POST",
    "/v1/secret-keys",
    {},
    { authorization: `Bearer ${body.token}` },
  );
  expect(refused.status).toBe(403);
});
