/** The progress of a tool call, as the watchers of a session see it and as the tape records it. */
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
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
