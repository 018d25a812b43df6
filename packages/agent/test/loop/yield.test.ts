import { manifest, tool } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { openTalk } from "./talk.ts";

const asks = (yield_to_user: boolean) =>
  ok({ content: [{ type: "text", text: "Which one?" }], status: "waiting for you", yield_to_user });

verifies("tools.context", "a result that yields gives the turn back without another model call", async () => {
  const talk = await openTalk();
  await talk.bind(manifest([tool("choose")]), { policy: { class: "worker" } });
  const models = () => talk.events.filter(({ kind }) => kind === "llm.call.request").length;

  talk.runner.script = () => asks(false);
  await talk.say("/tool choose {}", "goes_on");
  expect(models()).toBe(2);

  talk.runner.script = () => asks(true);
  const run = await talk.say("/tool choose {}");
  expect(models()).toBe(3);
  expect(run).toMatchObject({ status: "completed", iterations: 1, output: { content: "Which one?" } });
  const result = talk.events.findLast(({ kind }) => kind === "tool.call.result")!;
  expect(result.payload).toMatchObject({ ok: true, status: "waiting for you", yield_to_user: true });
  const { items } = await talk.kernel.invocations.list(user, { session_id: "s1" }, { limit: 10 });
  expect(items[0]!.tool_result).toMatchObject({ status: "waiting for you", yield_to_user: true });

  // The next message is answered with the result in sight.
  talk.runner.script = () => ok();
  await talk.say("the first");
  const { messages } = talk.events.findLast(({ kind }) => kind === "llm.call.request")!.payload;
  expect(JSON.stringify(messages)).toContain("Which one?");
});

verifies("tools.context", "a tool is told whether somebody watches the conversation", async () => {
  const talk = await openTalk();
  await talk.bind(manifest([tool("look")]), { policy: { class: "worker" } });
  await talk.say("/tool look {}");
  const watcher = await talk.kernel.fanout.attach(
    user,
    { session_id: "s1" },
    { since_entry: null, adapter_id: "test", send: () => 0, ended() {} },
  );
  await talk.say("/tool look {}");
  watcher.detach();
  const told = talk.runner.orders.map(({ context }) => [context.session_id, context.interactive]);
  expect(told).toEqual([
    ["s1", undefined],
    ["s1", true],
  ]);
});
