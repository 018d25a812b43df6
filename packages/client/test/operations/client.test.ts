import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { codeOf } from "@backplane/contract";
import { packFolder } from "@backplane/supply";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PACKAGE_ID, writeSamplePackage } from "../../../api/test/support/sample-package.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "../../../api/test/support/start-api.ts";
import { type Client, createClient, type InvocationUpdate } from "../../src/index.ts";

let api: TestApi;
let client: Client;
let url: string;
beforeAll(async () => {
  api = await startApi();
  url = await api.api.listen({ host: "127.0.0.1", port: 0 });
  client = createClient({ url: `${url}/`, token: ADMIN_TOKEN });
});
afterAll(() => api.close());

const catchError = async (work: Promise<unknown>) => {
  try {
    await work;
  } catch (error) {
    return error as { code: string; message: string; fix: string; details: Record<string, unknown> };
  }
  throw new Error("nothing was thrown");
};

test("installs, binds, invokes and removes a plugin", async () => {
  const installed = await client.packages.installFolder(writeSamplePackage(api.home));
  const stream = new PassThrough();
  const packing = packFolder(writeSamplePackage(api.home, "2.0.0"), stream);
  const uploaded = await client.packages.installArchive(stream);
  await packing;
  expect([installed.version, uploaded.version]).toEqual(["1.0.0", "2.0.0"]);
  expect((await client.packages.list({ limit: 1 })).items).toHaveLength(1);
  expect(await client.packages.get(uploaded.id)).toEqual(uploaded);
  await client.packages.remove(uploaded.id);

  const secret = await client.secrets.put("jira_token", "sk-long-enough-1234");
  expect((await client.secrets.get("jira_token")).last4).toBe("1234");
  const binding = await client.bindings.create({
    package_id: PACKAGE_ID,
    package_version: "1.0.0",
    export_id: "search",
    secrets: { jira_token: secret.ref },
  });
  expect((await client.bindings.validate(binding.binding_id)).valid).toBe(true);
  expect((await client.bindings.list({ kind: "tool" })).items).toEqual([binding]);
  const changed = await client.bindings.patch(binding.binding_id, { status: "active" }, { generation: 1 });
  expect(changed.generation).toBe(2);
  const conflict = await catchError(
    client.bindings.patch(binding.binding_id, { status: "active" }, { generation: 1 }),
  );
  expect(conflict.code).toBe("request.precondition");
  expect((await client.exports.list("tool")).map((tool) => tool.export_id)).toEqual(["search"]);

  const done = await client.invocations.invoke(
    { export_id: "search", input: { text: "hi" } },
    { wait: true },
  );
  expect(done.status).toBe("succeeded");
  expect(await client.invocations.get(done.id)).toEqual(done);
  expect((await client.invocations.list({ status: "succeeded" })).items).toHaveLength(1);
  expect((await client.invocations.list({ status: ["failed", "succeeded"] })).items).toHaveLength(1);
  expect((await client.invocations.list({ status: ["failed", "retryable_failure"] })).items).toEqual([]);
  expect((await client.audit.list({ limit: 5 })).items).not.toEqual([]);
  expect((await client.status()).version).toBe("0.0.0-test");

  await client.bindings.remove(binding.binding_id);
  await client.secrets.remove("jira_token");
  expect((await client.secrets.list()).items).toEqual([]);
});

test("answers approvals, and creates and removes allow rules and keys", async () => {
  const { binding_id } = await client.bindings.create({
    package_id: PACKAGE_ID,
    package_version: "1.0.0",
    export_id: "ask",
  });
  const call = await client.invocations.invoke({ binding_id, input: {}, session_id: "s" });
  const [pending] = (await client.approvals.list({ status: "pending" })).items;
  expect(pending?.invocation_id).toBe(call.id);
  await client.approvals.answer(pending!.id, { response: "approve_for_session" });
  const [grant] = await client.approvals.grants();
  await client.approvals.revokeGrant(grant!.id);
  expect(await client.approvals.grants()).toEqual([]);
  expect((await client.approvals.get(pending!.id)).status).toBe("approved");

  const rule = await client.allow_rules.create({ tool: "ask", note: "for tests" });
  expect((await client.allow_rules.list()).items).toEqual([rule]);
  await client.allow_rules.remove(rule.id);
  expect((await client.allow_rules.list()).items).toEqual([]);

  const created = await client.keys.create(
    { name: "k", scopes: ["secrets:read"] },
    { idempotency_key: "one" },
  );
  const repeat = await client.keys.create(
    { name: "k", scopes: ["secrets:read"] },
    { idempotency_key: "one" },
  );
  expect([repeat.key.id, repeat.token]).toEqual([created.key.id, null]);
  const limited_client = createClient({ url, token: created.token! });
  expect((await catchError(limited_client.keys.list())).code).toBe("auth.scope");
  await client.keys.revoke(created.key.id);
  expect((await catchError(limited_client.secrets.list())).code).toBe("auth.invalid");
  expect((await client.createLoginLink()).path).toMatch(/^\/login\?code=/);
});

test("throws the error of the gateway with code, fix, details and request id", async () => {
  const error = await catchError(client.invocations.invoke({ export_id: "nothing" }));
  expect(error.code).toBe("export.not_found");
  expect(error.fix).toBeTruthy();
  expect(error.details.request_id).toMatch(/^req_/);
  expect(error.details.fix).toBeUndefined();
});

test("adds the id in the path to a not-found error", async () => {
  const respond = (code: string) => async () =>
    Response.json(
      { error: { code, message: "Not found.", retryable: false, request_id: "req_1" } },
      { status: 404 },
    );
  const createFailingClient = (code: string) =>
    createClient({ url, token: ADMIN_TOKEN, fetch: respond(code) });
  const missing = [
    [createFailingClient("binding.not_found").bindings.get("bind_1"), "bind_1"],
    [createFailingClient("provider.not_found").providers.remove("prov_1"), "prov_1"],
  ] as const;
  for (const [work, requested] of missing)
    expect(await catchError(work)).toMatchObject({ details: { requested } });
});

test("throws the error of the gateway when an upload is rejected midway", async () => {
  async function* noise(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 80; i++) yield new Uint8Array(64 * 1024).fill(1);
  }
  for (const bytes of [new Uint8Array(5_000_000).fill(1), noise()])
    expect((await catchError(client.packages.installArchive(bytes))).code).toMatch(/^package\./);
});

test("reconnects a broken stream without missing or repeating an event", async () => {
  await client.bindings.create({ package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" });
  const earlier_requests = api.runner.requests.length;
  const started = await client.invocations.invoke({ export_id: "echo", input: { do: "wait" } });
  await api.runner.started(earlier_requests + 1);
  // The first stream is interrupted after its first event.
  let streams = 0;
  const interruptingFetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!(input as string).endsWith("/events") || streams++ > 0) return response;
    const reader = response.body!.getReader();
    const body = new ReadableStream({
      async pull(controller) {
        const { value } = await reader.read();
        controller.enqueue(value);
        if (new TextDecoder().decode(value).includes("id: 1")) {
          await reader.cancel();
          controller.error(new Error("the connection broke"));
        }
      },
    });
    return new Response(body, response);
  };
  const interrupted_client = createClient({ url, token: ADMIN_TOKEN, fetch: interruptingFetch });
  api.runner.emit(started.id, { type: "progress", message: "one" });
  const updates: InvocationUpdate[] = [];
  for await (const update of interrupted_client.invocations.watch(started.id, { retry_ms: 1 })) {
    updates.push(update);
    if (updates.length === 1) api.runner.emit(started.id, { type: "progress", message: "two" });
    if (updates.length === 2) api.runner.release(started.id);
  }
  expect(updates.map((update) => ("seq" in update ? update.seq : update.settled.status))).toEqual([
    1,
    2,
    "succeeded",
  ]);
  expect(streams).toBe(2);
});

test("throws daemon.unreachable when no gateway or another server responds", async () => {
  const other_server = createServer((_request, response) =>
    response.writeHead(502).end("<html>bad gateway</html>"),
  );
  other_server.listen(0, "127.0.0.1");
  await once(other_server, "listening");
  const { port } = other_server.address() as AddressInfo;
  const other_client = createClient({ url: `http://127.0.0.1:${port}`, token: "t" });
  expect(await catchError(other_client.status())).toMatchObject({
    code: "daemon.unreachable",
    details: { status: 502 },
  });
  other_server.close();
  await once(other_server, "close");
  const error = await catchError(other_client.status());
  expect(codeOf(error)).toBe("daemon.unreachable");
  const watching = other_client.invocations.watch("inv_1", { attempts: 2, retry_ms: 1 });
  expect((await catchError(watching.next())).code).toBe("daemon.unreachable");
});
