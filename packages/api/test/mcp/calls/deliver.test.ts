/** Long waits with a manual clock: headers are sent, and a waiting client is notified again. */
import type { JsonObject } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBoundApi } from "../../support/bound-api.ts";
import { callParams, connect } from "../../support/mcp-client.ts";
import type { TestApi } from "../../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["echo", "ask"]));
});
afterAll(() => api.close());

test("turns the response of a long call into a stream", async () => {
  const client = await connect(base, "2025-11-25");
  const request_count = api.runner.requests.length;
  const running = client.ask("tools/call", callParams("echo", { do: "wait" }));
  await api.runner.started(request_count + 1);
  const { invocation_id } = api.runner.requests[request_count]!;
  api.runner.emit(invocation_id, { type: "log", level: "info", message: "long" });
  api.clock.advance(6_000);
  api.runner.release(invocation_id);
  const { form, messages } = await running;
  expect(form).toBe("sse");
  expect(messages[0].params).toEqual({ level: "info", logger: "echo", data: "long" });
  expect(messages.at(-1).result.content[0].text).toBe("released");
});

test("repeats the approval notification with increasing progress", async () => {
  const client = await connect(base, "2025-11-25");
  const notifications: JsonObject[] = [];
  const approval_notifications: PromiseWithResolvers<void>[] = [
    Promise.withResolvers(),
    Promise.withResolvers(),
  ];
  const running = client.ask("tools/call", callParams("ask", {}, "p"), {
    each(message) {
      if (message.method !== "notifications/progress") return;
      notifications.push(message.params as JsonObject);
      approval_notifications[notifications.length - 1]?.resolve();
    },
  });
  await approval_notifications[0]!.promise;
  // The timer of the repeated notification starts only after the first one was read.
  for (let repeated = false; !repeated; ) {
    api.clock.advance(16_000);
    repeated = await Promise.race([
      approval_notifications[1]!.promise.then(() => true),
      new Promise(setImmediate).then(() => false),
    ]);
  }
  const { json } = await api.call("GET", "/v1/approvals?status=pending");
  await api.call("POST", `/v1/approvals/${json.items[0].id}:answer`, { body: { response: "approve" } });
  expect((await running).last.result.isError).toBe(false);
  const progress = notifications.map((params) => Number(params.progress));
  expect(progress.every((value, n) => n === 0 || value > progress[n - 1]!)).toBe(true);
  expect(notifications[0]!.message).toContain(`backplane approve allow ${json.items[0].id}`);
});
