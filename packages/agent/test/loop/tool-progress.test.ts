/** The progress of a tool call, as the watchers of a session see it and as the tape records it. */
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "./test-session.ts";

verifies(
  ["content.progress", "tool.contract"],
  "passes the events of a streaming tool to watchers and records the last status and output on the tape",
  async () => {
    const fixture = await createTestSession();
    const content = manifest([
      toolExport("loud", {}, { streaming: true }),
      toolExport("quiet", {}, { streaming: false }),
    ]);
    await fixture.bind(content, { export_id: "loud" });
    await fixture.bind(content, { export_id: "quiet" });
    fixture.runner.script = async ({ event }) => {
      event({ type: "progress", message: "halfway", data: { progress: 1, total: 2 } });
      event({ type: "output", text: "line 1\n" });
      return ok({ content: [{ type: "text", text: "done" }], status: "truncated" });
    };
    const resultOf = async (session_id: string) =>
      (await fixture.tape(session_id)).find(({ kind }) => kind === "tool_result")!.payload;
    const updates = () => fixture.events.filter(({ kind }) => kind === "x.loop.tool.progress");

    await fixture.say("/tool loud {}", "s1");
    const recorded = { status: "truncated", progress: { status: "halfway", output: "line 1\n" } };
    expect(await resultOf("s1")).toMatchObject(recorded);
    const { tool_call_id } = await resultOf("s1");
    expect(updates().map(({ payload, session_id }) => ({ ...payload, session_id }))).toEqual([
      {
        session_id: "s1",
        id: tool_call_id,
        invocation_id: expect.stringMatching(/^inv_/),
        type: "progress",
        status: "halfway",
        progress: 1,
        total: 2,
        output: "line 1\n",
        persist: false,
      },
    ]);
    // Watchers see the progress before the result.
    const order = fixture.events.map(({ kind }) => kind);
    expect(order.indexOf("x.loop.tool.progress")).toBeLessThan(order.indexOf("tool.call.result"));
    expect((await fixture.tape("s1")).some(({ payload }) => payload.name === "x.loop.tool.progress")).toBe(
      false,
    );

    await fixture.say("/tool quiet {}", "s2");
    expect(await resultOf("s2")).toMatchObject(recorded);
    expect(updates()).toHaveLength(1);
  },
);

verifies(
  "content.progress",
  "passes the progress of direct and nested calls to the watchers of their session",
  async () => {
    const fixture = await createTestSession();
    const { kernel } = fixture;
    const content = manifest([
      toolExport("loud", {}, { streaming: true }),
      toolExport("quiet", {}, { streaming: false }),
      toolExport("outer", { permissions: { gateway_api_scopes: ["tools:invoke"] } }),
    ]);
    for (const export_id of ["loud", "quiet", "outer"]) await fixture.bind(content, { export_id });
    fixture.runner.script = async ({ request, event }) => {
      if (request.export_id === "outer") {
        const caller = await kernel.keys.authenticate(request.context.gateway.delegation_token!);
        await (await kernel.invocations.invoke(caller, { export_id: "loud", input: {} })).settled;
        return ok({});
      }
      event({ type: "progress", message: "halfway", data: { progress: 1, total: 2 } });
      event({ type: "output", text: "line 1\n" });
      return ok({});
    };
    await kernel.sessions.create(user, { session_id: "s1" });
    const caller = { ...user, scopes: ["sessions:write" as const] };
    const received: string[] = [];
    const watcher = {
      since_entry: null,
      adapter_id: "test",
      send({ frame }: { frame: string }) {
        received.push(frame);
        return 0;
      },
      ended() {},
    };
    await kernel.fanout.attach(user, { session_id: "s1" }, watcher);
    const call = async (export_id: string, session_id: string) =>
      await (await kernel.invocations.invoke(caller, { export_id, input: {}, session_id })).settled;
    const updates = () => fixture.events.filter(({ kind }) => kind === "x.loop.tool.progress");

    const direct = await call("loud", "s1");
    await until(() => updates().length === 1);
    const expected = { type: "progress", status: "halfway", progress: 1, total: 2, output: "line 1\n" };
    expect(updates()[0]).toMatchObject({
      session_id: "s1",
      payload: { ...expected, id: direct.id, invocation_id: direct.id, name: "loud", persist: false },
    });
    await until(() => received.some((frame) => frame.includes("halfway")));

    await call("outer", "s1");
    await until(() => updates().length === 2);
    expect(updates()[1]).toMatchObject({ session_id: "s1", payload: { ...expected, name: "loud" } });

    await call("quiet", "s1");
    // The id of a session that does not exist is only a label, even if a session gets this id during the call.
    await call("loud", "label");
    fixture.runner.script = async ({ request, event }) => {
      if (request.context.session_id === "later") await kernel.sessions.create(user, { session_id: "later" });
      event({ type: "progress", message: "halfway" });
      return ok({});
    };
    await call("loud", "later");
    await call("loud", "s1");
    await until(() => updates().length >= 3);
    expect(updates().map(({ session_id }) => session_id)).toEqual(["s1", "s1", "s1"]);
    expect((await fixture.tape("s1")).some(({ kind }) => kind === "tool_result")).toBe(false);
  },
);
