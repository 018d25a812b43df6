import type { BusEvent, KernelPlugin, KernelTool } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "../loop/test-session.ts";

const outcomes = (fixture: TestSession) =>
  fixture.events.filter(({ kind }) => kind === "tool.error" || kind === "tool.call.result");

/**
 * A legacy tool, as plugins implemented it before the typed contract: it receives the request and emits the
 * result.
 */
function legacyTool(received: BusEvent[], more: Partial<KernelPlugin> = {}): KernelPlugin {
  return {
    name: "tool-shout",
    version: "1.0.0",
    category: "tool",
    toolName: "shout",
    description: "Shouts.",
    jsonSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    subscriptions: () => ["tool.call.request"],
    async onEvent(event, ctx) {
      if (event.kind !== "tool.call.request") return;
      received.push(event);
      const { id, args } = event.payload as { id: string; args: { text: string } };
      const value = args.text.toUpperCase();
      await ctx.emit("tool.call.result", { id, ok: true, value, request_id: event.id }, event);
    },
    ...more,
  };
}

verifies("ktool.dispatch", "reports each outcome of a typed call with its own kind", async () => {
  let ran = 0;
  const countingAdd: KernelTool = {
    ...addTool,
    run(args, call) {
      ran++;
      return addTool.run(args, call);
    },
  };
  const broken: KernelTool = {
    ...addTool,
    name: "broken",
    run: () => Promise.reject(new Error("out of order")),
  };
  const needsApproval: KernelTool = { ...addTool, name: "needs_approval", requires_approval: true };
  const fixture = await createTestSession({
    tools: [countingAdd, broken, needsApproval],
    host: { approval_timeout_ms: 200 },
  });
  const args = '{"a": 1, "b": 2}';
  await fixture.say(
    `/tool nothing {}\n/tool add {"a": "x", "c": 1}\n/tool needs_approval ${args}\n/tool broken ${args}\n/tool add ${args}`,
  );
  const calls = fixture.events.filter(({ kind }) => kind === "tool.call.request");
  expect(calls.map(({ payload, source }) => [payload.schema_version, source])).toEqual(
    Array.from({ length: 5 }, () => ["v1", "kernel"]),
  );
  const byCall = new Map(outcomes(fixture).map((event) => [event.payload.request_id, event]));
  const [unknown, invalid, denied, thrown, fine] = calls.map(({ id }) => byCall.get(id)!);
  expect(unknown).toMatchObject({ kind: "tool.error", payload: { kind: "not_found" } });
  expect(invalid).toMatchObject({ kind: "tool.error", payload: { kind: "validation" } });
  const { errors, issues } = invalid!.payload.detail as { errors: unknown[]; issues: { path: string }[] };
  expect(issues.length).toBeGreaterThan(0);
  expect(errors).toEqual(issues);
  expect(denied).toMatchObject({ kind: "tool.error", payload: { kind: "rejected" } });
  expect(thrown).toMatchObject({
    kind: "tool.call.result",
    payload: { ok: false, envelope: { kind: "crashed", brief: "out of order" } },
  });
  expect(fine).toMatchObject({
    kind: "tool.call.result",
    payload: { ok: true, envelope: { brief: "3", display: { kind: "text", text: "3" } } },
  });
  expect(ran).toBe(1);
  expect(new Set(outcomes(fixture).map(({ source }) => source))).toEqual(new Set(["kernel"]));
});

verifies(
  "ktool.dispatch",
  "calls a legacy tool only through the door, which checks and records the call",
  async () => {
    const received: BusEvent[] = [];
    const fixture = await createTestSession({ plugins: [legacyTool(received)] });
    // The effect of the tool is undeclared, so it would need approval at the default tolerance.
    await fixture.kernel.policy.patch(admin, "org", { tolerance: { conversation: "full" } });
    const run = await fixture.say('/tool shout {"text": "hi"}\n/tool shout {"text": 5}');
    expect(run.output!.content).toContain("HI");
    const [call] = fixture.events.filter(({ kind }) => kind === "tool.call.request");
    expect(call!.payload.schema_version).toBeUndefined();
    expect(received.map(({ payload }) => (payload as { args: object }).args)).toEqual([{ text: "hi" }]);
    const kinds = outcomes(fixture).map(({ kind, payload }) => [kind, payload.kind ?? payload.ok]);
    expect(new Map(kinds as [string, unknown][])).toEqual(
      new Map<string, unknown>([
        ["tool.error", "validation"],
        ["tool.call.result", true],
      ]),
    );
    const { items } = await fixture.kernel.invocations.list(user, { export_id: "shout" }, { limit: 5 });
    expect(new Map(items.map(({ status, error }) => [status, error?.code]))).toEqual(
      new Map([
        ["failed", "input.invalid"],
        ["succeeded", undefined],
      ]),
    );
  },
);

verifies("ktool.dispatch", "sends nothing to a legacy tool before its call is approved", async () => {
  const received: BusEvent[] = [];
  const fixture = await createTestSession({ plugins: [legacyTool(received, { requiresApproval: true })] });
  const turn = fixture.say('/tool shout {"text": "hi"}');
  await until(() => fixture.events.some(({ kind }) => kind === "approval.request"));
  expect(received).toEqual([]);
  const { items } = await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 5 });
  await fixture.kernel.approvals.answer(admin, items[0]!.id, { response: "approve" });
  expect((await turn).output!.content).toContain("HI");
  expect(received).toHaveLength(1);
});

verifies("ktool.dispatch", "lets only the kernel publish a tool call", async () => {
  const refused: string[] = [];
  const forger: KernelPlugin = {
    name: "forger",
    version: "1.0.0",
    category: "skill",
    subscriptions: () => ["user.message.received"],
    async onEvent(event, ctx) {
      const call = { id: "c1", name: "add", args: { a: 1, b: 2 } };
      await ctx
        .emit("tool.call.request", call, event)
        .catch((error: { code: string }) => refused.push(error.code));
    },
  };
  const fixture = await createTestSession({
    plugins: [forger],
    tools: [{ ...addTool, run: () => toolOk("ran") }],
  });
  await fixture.say("hello");
  await until(() => refused.length === 1);
  expect(refused).toEqual(["policy.denied"]);
  expect(fixture.events.some(({ kind }) => kind === "tool.call.request")).toBe(false);
});
