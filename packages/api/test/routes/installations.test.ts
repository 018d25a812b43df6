/** Installations over HTTP: archives, folders and MCP servers, the settings of an archive, repeats and errors. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packToBuffer } from "../support/pack-to-buffer.ts";
import { writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const PATH = "/v1/plugin-installations";

const send = (body: object, headers: Record<string, string> = {}) =>
  api.call("POST", PATH, { body, headers });
const upload = (body: Buffer, settings?: object | string, headers: Record<string, string> = {}) =>
  api.call("POST", PATH, {
    body,
    headers: {
      "content-type": "application/octet-stream",
      ...(settings === undefined
        ? {}
        : { "installation-settings": typeof settings === "string" ? settings : JSON.stringify(settings) }),
      ...headers,
    },
  });

async function countStored() {
  const [packages, bindings] = await Promise.all(
    ["plugin-packages", "plugin-bindings"].map((noun) => api.call("GET", `/v1/${noun}?limit=500`)),
  );
  return [
    packages!.json.items.length,
    bindings!.json.items.length,
    readdirSync(join(api.home, "blobs/sha256")).length,
  ];
}

test("installs and binds an archive with its settings, and responds 200 to a repetition", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "1.0.0"));
  const settings = { bind: true, policy: { timeout_ms: 5_000 } };
  const done = await upload(archive, settings);
  expect(done.status).toBe(201);
  expect(done.json).toMatchObject({ kind: "package", packages: [{ created: true }], left_out: [] });
  expect(done.json.bindings).toHaveLength(6);
  const again = await upload(archive, settings);
  expect(again.status).toBe(200);
  expect(again.json.bindings.map(({ change }: { change: string }) => change)).toEqual(
    Array.from({ length: 6 }, () => "unchanged"),
  );
  const next = await upload(await packToBuffer(writeSamplePackage(api.home, "1.1.0")), { bind: true });
  expect(next.status).toBe(201);
  expect(next.json.bindings).toMatchObject(
    Array.from({ length: 6 }, () => ({ change: "moved", binding: { policy: { timeout_ms: 5_000 } } })),
  );
});

test("installs a folder, a remote server and an mcp.json that a JSON body specifies", async () => {
  const folder = writeSamplePackage(api.home, "2.0.0");
  expect((await send({ source: { kind: "folder", path: folder } })).json).toMatchObject({ bindings: [] });
  const remote = await send({
    source: { kind: "mcp_url", name: "remote", url: "https://remote.invalid/mcp" },
    policy: { approval: "always" },
  });
  expect([remote.status, remote.json]).toMatchObject([
    201,
    {
      bindings: [
        { change: "created", binding: { package_id: "mcp/remote", policy: { approval: "always" } } },
      ],
    },
  ]);
  const mcp_servers = { near: { command: "python3" }, own: { command: "/opt/own" } };
  const some = await send({ source: { kind: "mcp_json", document: { mcpServers: mcp_servers } } });
  expect(some.json).toMatchObject({ packages: [{}], bindings: [{}], left_out: [{ name: "own" }] });
  const strict = await send({
    source: { kind: "mcp_json", document: { mcpServers: mcp_servers } },
    strict: true,
  });
  expect(strict.json.error).toMatchObject({
    code: "package.invalid",
    details: { left_out: [{ name: "own" }] },
  });
});

test("reports the kind and contents of a source without installing it", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "3.0.0"));
  const headers = { "content-type": "application/octet-stream" };
  const counts_before = await countStored();
  const uploaded = await api.call("POST", `${PATH}:inspect`, { body: archive, headers });
  expect(uploaded.json).toMatchObject({ kind: "package", packages: [{ version: "3.0.0", binds: false }] });
  const kernel = join(api.home, "kernel");
  mkdirSync(kernel);
  const group = { memory: { category: "memory" } };
  writeFileSync(
    join(kernel, "package.json"),
    JSON.stringify({ name: "m", version: "1.0.0", exports: "./i.js", "yaya.plugins.v1": group }),
  );
  writeFileSync(join(kernel, "i.js"), "");
  const source = { kind: "folder", path: kernel };
  const inspected = await api.call("POST", `${PATH}:inspect`, { body: { source } });
  expect(inspected.json).toMatchObject({
    kind: "kernel_plugins",
    plugins: [{ name: "memory", source: kernel }],
  });
  expect((await send({ source })).json.error).toMatchObject({
    code: "package.source_invalid",
    details: { fix: expect.stringContaining("POST /api/plugins/install") },
  });
  expect(await countStored()).toEqual(counts_before);
});

test("responds 200 to a dry run with what the installation would store, and stores nothing", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "3.5.0"));
  const counts_before = await countStored();
  const key = { "idempotency-key": "dry-run-of-3.5.0" };
  const preview = await upload(archive, { bind: true, dry_run: true }, key);
  expect(preview.status).toBe(200);
  expect(preview.json).toMatchObject({
    dry_run: true,
    packages: [{ package: { version: "3.5.0", signature: { state: "unsigned" } }, created: true }],
  });
  expect(preview.json.bindings).toHaveLength(6);
  expect(await countStored()).toEqual(counts_before);
  // The key belongs to the dry run, so an installation cannot get its response.
  expect((await upload(archive, { bind: true }, key)).status).toBe(409);
});

test("stores neither rows nor files of an archive whose bindings fail", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "4.0.0"));
  const counts_before = await countStored();
  for (const settings of [
    { bind: true, secrets: { nothing: "secret://org_local/x" } },
    // The export `shrink`, the only one with a configuration, rejects this one.
    { bind: true, config: { window: "wide" } },
    { config: { window: 1 } },
  ])
    expect((await upload(archive, settings)).status).toBeGreaterThanOrEqual(400);
  expect(await countStored()).toEqual(counts_before);
});

test("repeats the first response for the same Idempotency-Key and refuses the key with other settings or bytes", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "5.0.0"));
  const key = { "idempotency-key": "install-5" };
  const first = await upload(archive, { bind: false }, key);
  const again = await upload(archive, { bind: false }, key);
  expect([first.status, again.status]).toEqual([201, 201]);
  expect(again.headers["idempotency-replayed"]).toBe("true");
  expect(again.json).toEqual(first.json);
  const other_archive = await packToBuffer(writeSamplePackage(api.home, "5.0.1"));
  for (const conflicting of [
    await upload(archive, { bind: true }, key),
    await upload(other_archive, { bind: false }, key),
  ])
    expect(conflicting.json.error.code).toBe("idempotency.conflict");
  const source = { kind: "mcp_url", name: "once", url: "https://remote.invalid/mcp" };
  const installed = await send({ source }, { "idempotency-key": "install-6" });
  const repeated = await send({ source }, { "idempotency-key": "install-6" });
  expect([installed.status, repeated.status, repeated.json]).toEqual([201, 201, installed.json]);
});

test.each([
  ["{", "Installation-Settings is not valid JSON"],
  [
    `{"config":${"[".repeat(64)}${"]".repeat(64)}}`,
    "Installation-Settings is nested more than 64 levels deep",
  ],
  ['{"config":{"__proto__":{}}}', "Installation-Settings contains a key named __proto__"],
  ['{"config":{"a":1e999}}', "Installation-Settings contains a number that is too large"],
  ['{"bind":"yes"}', "header.bind"],
  ['{"source":{}}', "Unrecognized key"],
  ['{"config":{"a":"\u00fc"}}', "must be ASCII"],
  [`{"config":{"a":"${"x".repeat(8_200)}"}}`, "larger than 8192 bytes"],
])("refuses the settings %.20s", async (settings, reason) => {
  const response = await upload(await packToBuffer(writeSamplePackage(api.home, "6.0.0")), settings);
  expect(response.status).toBeGreaterThanOrEqual(400);
  expect(response.json.error.message).toContain(reason);
});

test("reads escaped characters beyond ASCII from the settings", async () => {
  const archive = await packToBuffer(writeSamplePackage(api.home, "7.0.0"));
  const refused = await upload(archive, '{"bind":true,"config":{"w\\u00e4hrung":1}}');
  // The header was parsed: the refusal is about the setting, which the schema of the package does not have.
  expect(refused.json.error.message).toContain("/config");
});
