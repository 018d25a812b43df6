import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ADMIN } from "../support/callers.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
  for (const export_id of ["echo", "ask"])
    await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id },
    });
});
afterAll(() => api.close());

const invoke = (query: string, body: object, headers: Record<string, string> = {}) =>
  api.call("POST", `/v1/invocations${query}`, { body, headers });

verifies(
  "api.invocations",
  "responds 202 with the row on disk, and reads, lists and cancels it",
  async () => {
    const started = await invoke("", { export_id: "echo", input: { do: "wait" } });
    expect([started.status, started.json.status]).toEqual([202, "running"]);
    const url = `/v1/invocations/${started.json.id}`;
    expect((await api.call("GET", url)).json).toMatchObject({ id: started.json.id, status: "running" });
    const listed = (await api.call("GET", "/v1/invocations?status=running&export_id=echo")).json.items;
    expect(listed.map((item: { id: string }) => item.id)).toEqual([started.json.id]);
    const either = (await api.call("GET", "/v1/invocations?status=failed,running,failed&export_id=echo")).json
      .items;
    expect(either.map((item: { id: string }) => item.id)).toEqual([started.json.id]);
    const neither = await api.call("GET", "/v1/invocations?status=failed,retryable_failure&export_id=echo");
    expect(neither.json.items).toEqual([]);
    const unknown = await api.call("GET", "/v1/invocations?status=failed,lost");
    expect([unknown.status, unknown.json.error]).toMatchObject([
      400,
      {
        code: "request.invalid",
        message: expect.stringMatching(/"lost" is not a status; use one or more of .*retryable_failure/),
      },
    ]);

    await api.runner.started(1);
    const cancelled = await api.call("POST", `${url}:cancel`);
    expect(cancelled.status).toBe(202);
    const events = await api.call("GET", `${url}/events`);
    expect(events.text).toMatch(/event: settled\ndata: .*"status":"cancelled"/);
    const second_cancel = await api.call("POST", `${url}:cancel`);
    expect([second_cancel.status, second_cancel.json.error.code]).toEqual([409, "invocation.settled"]);
  },
);

verifies(
  "api.invocations",
  "responds to a request with wait when the invocation has ended, even when it failed",
  async () => {
    for (const query of ["?wait", "?wait=true", "?wait=5"]) {
      const done = await invoke(query, { export_id: "echo", input: { text: "hi" } });
      expect([done.status, done.json.status]).toEqual([200, "succeeded"]);
      expect(done.json.result.content[0].text).toBe("hi");
    }
    const failed = await invoke("?wait=5", { export_id: "echo", input: { do: "fail" } });
    expect([failed.status, failed.json.status, failed.json.error.code]).toEqual([
      200,
      "failed",
      "plugin_failed",
    ]);
    for (const query of ["?wait=61", "?wait=-1", "?wait=soon", "?wiat=1"])
      expect((await invoke(query, { export_id: "echo" })).status, query).toBe(400);
    const soon = await invoke("?wait=soon", { export_id: "echo" });
    expect(soon.json.error.message).toBe("query.wait: must be true, or a number of seconds from 0 to 60");
  },
);

test("responds 202 with the current record when wait runs out", async () => {
  const held = invoke("?wait=20", { export_id: "echo", input: { do: "wait" } });
  await api.runner.started(api.runner.requests.length + 1);
  // The timer of `wait` starts once the row is on disk.
  const request = api.runner.requests.at(-1)!;
  await api.kernel.invocations.get({ ...ADMIN }, request.invocation_id);
  api.clock.advance(20_000);
  const response = await held;
  expect([response.status, response.json.status]).toEqual([202, "running"]);
  api.runner.release(request.invocation_id);
});

verifies(
  "api.invocations",
  "responds 202 for a call awaiting approval or, with wait, when the call has ended",
  async () => {
    const waiting = await invoke("", { export_id: "ask", input: { text: "please" } });
    expect([waiting.status, waiting.json.status]).toEqual([202, "waiting_approval"]);
    expect(waiting.json.id).toMatch(/^inv_/);
    await api.call("POST", `/v1/approvals/${waiting.json.approval_id}:answer`, {
      body: { response: "reject" },
    });

    const held = invoke("?wait=30", { export_id: "ask", input: { text: "again" } });
    const pending = await vi.waitFor(async () => {
      const { items } = (await api.call("GET", "/v1/approvals?status=pending")).json;
      expect(items).toHaveLength(1);
      return items[0] as { id: string };
    }, 10_000);
    await api.call("POST", `/v1/approvals/${pending.id}:answer`, { body: { response: "approve" } });
    const done = await held;
    expect([done.status, done.json.status]).toEqual([200, "succeeded"]);
  },
);

verifies(
  "api.invocations",
  "responds to a refused call with its status and the id of its record",
  async () => {
    const refused = await invoke("?wait", { export_id: "echo", input: { text: 7 } });
    expect([refused.status, refused.json.error.code]).toEqual([422, "input.invalid"]);
    const record = await api.call("GET", `/v1/invocations/${refused.json.error.details.invocation_id}`);
    expect(record.json).toMatchObject({ status: "failed", error: { code: "input.invalid" } });
    const unknown = await invoke("", { export_id: "nothing" });
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "export.not_found"]);
  },
);

verifies("api.invocations", "replays events after Last-Event-ID and ends with the record", async () => {
  const done = await invoke("?wait", { export_id: "echo", input: { do: "talk" } });
  const url = `/v1/invocations/${done.json.id}/events`;
  const all = await api.call("GET", url);
  expect(all.headers["content-type"]).toMatch(/^text\/event-stream/);
  const parseIds = (text: string) => [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1]));
  expect(parseIds(all.text)).toEqual([1, 2, 3]);
  expect(all.text).toMatch(/data: \{"seq":1,.*"message":"one"/);
  expect(all.text.trimEnd().split("\n\n").at(-1)).toMatch(/^event: settled\ndata: \{"id":"inv_/);
  const rest = await api.call("GET", url, { headers: { "last-event-id": "2" } });
  expect(parseIds(rest.text)).toEqual([3]);
  expect(parseIds((await api.call("GET", `${url}?after=1`)).text)).toEqual([2, 3]);
  for (const id of ["x", "-1", "1.5", "0x1", "99999999999999999999"])
    expect((await api.call("GET", url, { headers: { "last-event-id": id } })).status, id).toBe(400);
  expect((await api.call("GET", "/v1/invocations/inv_none/events")).status).toBe(404);
});

test("runs a call once for repeats of an Idempotency-Key, even while it is running", async () => {
  const headers = { "idempotency-key": "invoke-1" };
  const request_count = api.runner.requests.length;
  const body = { export_id: "echo", input: { do: "wait" } };
  const first = await invoke("", body, headers);
  const repeat = await invoke("", body, headers);
  expect([first.status, repeat.status, repeat.json.id]).toEqual([202, 202, first.json.id]);
  expect(repeat.headers["idempotency-replayed"]).toBe("true");
  const held = invoke("?wait=30", { input: { do: "wait" }, export_id: "echo" }, headers);
  await api.runner.started(request_count + 1);
  api.runner.release(first.json.id);
  const ended = await held;
  expect([ended.status, ended.json.id, ended.json.status]).toEqual([200, first.json.id, "succeeded"]);
  expect(api.runner.requests.length).toBe(request_count + 1);
  const conflict = await invoke("", { export_id: "echo" }, headers);
  expect([conflict.status, conflict.json.error.code]).toEqual([409, "idempotency.conflict"]);
});

test("returns each of 32 concurrent callers its own result", async () => {
  const responses = await Promise.all(
    Array.from({ length: 32 }, (_, i) =>
      invoke("?wait", { export_id: "echo", input: { text: `call ${i}` } }),
    ),
  );
  expect(responses.map(({ json }) => json.result.content[0].text)).toEqual(
    Array.from({ length: 32 }, (_, i) => `call ${i}`),
  );
});
