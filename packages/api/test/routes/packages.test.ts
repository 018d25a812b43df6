import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { packFolder } from "@backplane/supply";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { packToBuffer } from "../support/pack-to-buffer.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "../support/start-api.ts";

const AGENT_PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ api: { limits: { upload_bytes: 200_000 } } });
});
afterAll(() => api.close());

const packSample = (version: string, remark = ""): Promise<Buffer> =>
  packToBuffer(writeSamplePackage(api.home, version, remark));

const upload = (body: Buffer, headers: Record<string, string> = {}, token?: string) =>
  api.call("POST", "/v1/plugin-packages", {
    body,
    headers: { "content-type": "application/octet-stream", ...headers },
    ...(token === undefined ? {} : { token }),
  });

async function createKey(scopes: string[]): Promise<string> {
  return (await api.call("POST", "/v1/keys", { body: { name: "k", scopes } })).json.token;
}

verifies(
  "api.packages",
  "installs an archive once, lists and reads it, and keeps it while it is bound",
  async () => {
    const archive = await packSample("1.0.0");
    const created = await upload(archive, { "content-type": "application/gzip" });
    expect(created.status).toBe(201);
    expect(created.json).toMatchObject({ package_id: PACKAGE_ID, version: "1.0.0", origin: "upload" });
    expect(created.json.id).toMatch(/^pkg_/);
    const again = await upload(archive, { "content-type": "application/x-tar" });
    expect([again.status, again.json]).toEqual([200, created.json]);

    const { id } = created.json;
    expect((await api.call("GET", "/v1/plugin-packages")).json.items).toEqual([created.json]);
    expect((await api.call("GET", `/v1/plugin-packages/${id}`)).json).toEqual(created.json);

    const binding = await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" },
    });
    const bound = await api.call("DELETE", `/v1/plugin-packages/${id}`);
    expect([bound.status, bound.json.error.code]).toEqual([409, "package.bound"]);
    expect(bound.json.error.details.bindings).toEqual([binding.json.binding_id]);
    await api.call("DELETE", `/v1/plugin-bindings/${binding.json.binding_id}`);
    expect((await api.call("DELETE", `/v1/plugin-packages/${id}`)).status).toBe(204);
    expect((await api.call("GET", `/v1/plugin-packages/${id}`)).status).toBe(404);
  },
);

verifies("api.packages", "accepts a folder on the host only with the admin token", async () => {
  const folder = writeSamplePackage(api.home, "2.0.0");
  const text = await api.call("POST", "/v1/plugin-packages", { body: { source: `folder:${folder}` } });
  expect([text.status, text.json.origin]).toEqual([201, "folder"]);
  const object = await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
  expect([object.status, object.json.id]).toEqual([200, text.json.id]);

  const token = await createKey(["packages:write"]);
  for (const key of [token, await createKey(["admin"])]) {
    const refused = await api.call("POST", "/v1/plugin-packages", {
      body: { source: { folder } },
      token: key,
    });
    expect([refused.status, refused.json.error.code]).toEqual([403, "package.source_forbidden"]);
  }
  const relative = await api.call("POST", "/v1/plugin-packages", { body: { source: "folder:../x" } });
  expect([relative.status, relative.json.error.code]).toEqual([400, "request.invalid"]);
  const as_archive = await upload(await packSample("2.0.1"), {}, token);
  expect(as_archive.status).toBe(201);
});

verifies("pkg.immutable", "rejects different bytes under the same version", async () => {
  expect((await upload(await packSample("3.0.0"))).status).toBe(201);
  const conflict = await upload(await packSample("3.0.0", "changed"));
  expect([conflict.status, conflict.json.error.code]).toEqual([409, "package.conflict"]);
});

test("rejects an upload over the limit and a body that is not an archive", async () => {
  const large = await upload(Buffer.alloc(200_001));
  expect([large.status, large.json.error.code]).toEqual([413, "request.too_large"]);
  const noise = await upload(Buffer.from("not an archive at all"));
  expect(noise.status).toBe(422);
});

test("rejects a streamed archive that exceeds the limit and stores no part of it", async () => {
  const dir = writeSamplePackage(api.home, "5.0.0");
  writeFileSync(join(dir, "noise.bin"), randomBytes(300_000));
  const stream = new PassThrough();
  const packing = packFolder(dir, stream).catch(() => undefined);
  const response = await api.api.inject({
    method: "POST",
    url: "/v1/plugin-packages",
    headers: {
      host: "127.0.0.1",
      authorization: `Bearer ${ADMIN_TOKEN}`,
      "content-type": "application/octet-stream",
    },
    payload: stream,
  });
  stream.resume();
  await packing;
  expect([response.statusCode, response.json().error.code]).toEqual([413, "request.too_large"]);
  expect((await api.call("GET", "/v1/plugin-packages?limit=500")).text).not.toContain('"5.0.0"');
});

test("replays the response to a repeated upload and rejects other bytes under the same Idempotency-Key", async () => {
  const archive = await packSample("4.0.0");
  const headers = { "idempotency-key": "upload-1" };
  const first = await upload(archive, headers);
  const repeat = await upload(archive, headers);
  expect([repeat.status, repeat.text, repeat.headers["idempotency-replayed"]]).toEqual([
    201,
    first.text,
    "true",
  ]);
  const conflict = await upload(await packSample("4.0.1"), headers);
  expect([conflict.status, conflict.json.error.code]).toEqual([409, "idempotency.conflict"]);
  const other_query = await api.call("POST", "/v1/plugin-packages?born_at=2024-01-01T00:00:00.000Z", {
    body: archive,
    headers: { "content-type": "application/octet-stream", ...headers },
  });
  expect([other_query.status, other_query.json.error.code]).toEqual([409, "idempotency.conflict"]);
  const versions = (await api.call("GET", "/v1/plugin-packages")).json.items.map(
    (item: { version: string }) => item.version,
  );
  expect(versions).not.toContain("4.0.1");
});

test("rejects another value of strict under the same Idempotency-Key of an Agent Plugin", async () => {
  const folder = join(api.home, "agent-plugin");
  mkdirSync(join(folder, "skills", "greet"), { recursive: true });
  writeFileSync(
    join(folder, "plugin.json"),
    JSON.stringify({ $schema: AGENT_PLUGIN_SCHEMA, name: "greeter", version: "1.0.0" }),
  );
  writeFileSync(
    join(folder, "skills", "greet", "SKILL.md"),
    "---\nname: greet\ndescription: Greets a person.\n---\nGreet.\n",
  );
  const install = (query: string) =>
    api.call("POST", `/v1/agent-plugins${query}`, {
      body: { source: { folder } },
      headers: { "idempotency-key": "agent-plugin-1" },
    });
  const installed = await install("");
  expect(installed.status, installed.text).toBe(201);
  expect((await install("")).headers["idempotency-replayed"]).toBe("true");
  const conflict = await install("?strict=1");
  expect([conflict.status, conflict.json.error.code]).toEqual([409, "idempotency.conflict"]);
});

test("paginates the list of packages", async () => {
  const first = await api.call("GET", "/v1/plugin-packages?limit=2");
  expect(first.json.items).toHaveLength(2);
  const second = await api.call("GET", `/v1/plugin-packages?limit=2&after=${first.json.next}`);
  expect(second.json.items.length).toBeGreaterThan(0);
  expect(second.json.items).not.toContainEqual(first.json.items[0]);
  expect((await api.call("GET", "/v1/plugin-packages?limit=0")).status).toBe(400);
});
