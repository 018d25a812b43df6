import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "./test-session.ts";

const askUser = (yield_to_user: boolean) =>
  ok({ content: [{ type: "text", text: "Which one?" }], status: "waiting for you", yield_to_user });

verifies("tools.context", "ends the turn without another model call when a result yields", async () => {
  const fixture = await createTestSession();
  await fixture.bind(manifest([toolExport("choose")]), { policy: { class: "worker" } });
  const countModelCalls = () => fixture.events.filter(({ kind }) => kind === "llm.call.request").length;

  fixture.runner.script = () => askUser(false);
  await fixture.say("/tool choose {}", "goes_on");
  expect(countModelCalls()).toBe(2);

  fixture.runner.script = () => askUser(true);
  const run = await fixture.say("/tool choose {}");
  expect(countModelCalls()).toBe(3);
  expect(run).toMatchObject({ status: "completed", iterations: 1, output: { content: "Which one?" } });
  const result = fixture.events.findLast(({ kind }) => kind === "tool.call.result")!;
  expect(result.payload).toMatchObject({ ok: true, status: "waiting for you", yield_to_user: true });
  const { items } = await fixture.kernel.invocations.list(user, { session_id: "s1" }, { limit: 10 });
  expect(items[0]!.tool_result).toMatchObject({ status: "waiting for you", yield_to_user: true });

  // The answer to the next message has the result in its context.
  fixture.runner.script = () => ok();
  await fixture.say("the first");
  const { messages } = fixture.events.findLast(({ kind }) => kind === "llm.call.request")!.payload;
  expect(JSON.stringify(messages)).toContain("Which one?");
});

verifies(
  "tools.context",
  "marks a call as interactive only while the conversation has a watcher",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(manifest([toolExport("look")]), { policy: { class: "worker" } });
    await fixture.say("/tool look {}");
    const watcher = await fixture.kernel.fanout.attach(
      user,
      { session_id: "s1" },
      { since_entry: null, adapter_id: "test", send: () => 0, ended() {} },
    );
    await fixture.say("/tool look {}");
    watcher.detach();
    const contexts = fixture.runner.requests.map(({ context }) => [context.session_id, context.interactive]);
    expect(contexts).toEqual([
      ["s1", undefined],
      ["s1", true],
    ]);
  },
);
