import type { ChatMessage, ToolCallRequest } from "@backplane/contract";
import { expect, test, vi } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import { plugin } from "../src/plugin.ts";

function createBus(): LlmBus {
  return new LlmBus(plugin, [createInstance("llm-echo")]);
}

/**
 * Runs the loop as the kernel would: every call is answered with `NAME=ARGS` until the model makes no more
 * calls.
 */
async function converse(bus: LlmBus, text: string) {
  const messages: ChatMessage[] = [{ role: "user", content: text }];
  const steps: string[][] = [];
  for (let n = 0; n < 10; n++) {
    const { kind, payload } = await bus.call({ messages });
    if (kind !== "llm.call.response") throw new Error(String(payload.error));
    const tool_calls = payload.tool_calls as ToolCallRequest[];
    if (tool_calls.length === 0) return { steps, text: payload.text as string };
    steps.push(tool_calls.map(({ name, args }) => `${name}=${JSON.stringify(args)}`));
    messages.push({ role: "assistant", content: payload.text as string, tool_calls });
    for (const { id, name, args } of tool_calls) {
      messages.push({ role: "tool", tool_call_id: id, content: `${name}=${JSON.stringify(args)}` });
    }
  }
  throw new Error("the script did not end");
}

test("echoes plain text in deltas and reports the usage", async () => {
  const bus = createBus();
  const { payload } = await bus.call({ messages: [{ role: "user", content: "hello there, 🙂 world" }] });
  expect(payload.text).toBe("echo: hello there, 🙂 world");
  expect(payload.stop_reason).toBe("stop");
  const deltas = bus.deltas().map(({ content }) => content);
  expect(deltas.join("")).toBe(payload.text);
  expect(payload.usage).toMatchObject({ input_other: 6, output: 7, total: 13 });
});

test("sends a slow answer in more than three deltas", async () => {
  const bus = createBus();
  await bus.call({ messages: [{ role: "user", content: "/slow 1\n/say one two three four five six" }] });
  expect(bus.deltas().length).toBeGreaterThan(3);
});

test("runs a script's tools in parallel and in steps, then summarizes", async () => {
  const script = [
    "Please do this:",
    "/say Working on it.",
    '/tool read {"path": "a b"}',
    "/tool now",
    "/then",
    '/tool write {"path": "c"}',
  ];
  const result = await converse(createBus(), script.join("\n"));
  expect(result.steps).toEqual([['read={"path":"a b"}', "now={}"], ['write={"path":"c"}']]);
  expect(result.text).toBe(
    'Tool results:\n- read: read={"path":"a b"}\n- now: now={}\n- write: write={"path":"c"}',
  );
});

test("answers with the last step if it has no tools", async () => {
  const result = await converse(createBus(), "/tool now\n/then\n/say all done");
  expect(result).toEqual({ steps: [["now={}"]], text: "all done" });
});

test("follows only the last user message, from its start", async () => {
  const bus = createBus();
  const messages = [
    { role: "user", content: "/tool now" },
    { role: "assistant", content: "", tool_calls: [{ id: "c1", name: "now", args: {} }] },
    { role: "tool", tool_call_id: "c1", content: "12:00" },
    { role: "assistant", content: "Tool results" },
    { role: "user", content: "/tool later" },
  ];
  const { payload } = await bus.call({ messages });
  expect(payload.tool_calls).toMatchObject([{ name: "later" }]);
});

test("reports the scripted thoughts and input tokens", async () => {
  const bus = createBus();
  const { payload } = await bus.call({
    messages: [{ role: "user", content: "/think hm\n/usage 90000\n/say hi" }],
  });
  expect(bus.deltas()[0]).toEqual({ thinking: "hm" });
  expect(payload).toMatchObject({ text: "hi", usage: { input: 90_000 } });
});

test("fails as often as scripted, then answers and restarts the count", async () => {
  const bus = createBus();
  const messages = [
    { role: "user", content: "/error status 429 retry-after 0.5 times 2\n/error empty times 1\n/say ok" },
  ];
  for (let round = 0; round < 2; round++) {
    const ends: unknown[] = [];
    for (let n = 0; n < 4; n++) {
      const { kind, payload } = await bus.call({ messages });
      ends.push(
        kind === "llm.call.response"
          ? payload.text
          : [payload.kind, payload.status_code, payload.retry_after_s],
      );
    }
    expect(ends).toEqual([["status", 429, 0.5], ["status", 429, 0.5], ["empty", undefined, undefined], "ok"]);
  }
});

test("fails every time for an error without a count", async () => {
  const bus = createBus();
  for (const kind of ["connection", "timeout", "other", "empty"]) {
    for (let n = 0; n < 3; n++) {
      const { payload } = await bus.call({ messages: [{ role: "user", content: `/error ${kind}` }] });
      expect(payload).toMatchObject({ kind, retryable: kind !== "other" });
    }
  }
});

test("raises the error of a later step only in that step", async () => {
  await expect(converse(createBus(), "/tool now\n/then\n/error status 500\n/say x")).rejects.toThrow("500");
});

test("answers an invalid script with the reason and the syntax", async () => {
  for (const bad of [
    "/tool",
    "/tool x {oops",
    "/tool x [1]",
    "/error nonsense",
    "/say a\n/dance",
    "/slow fast",
  ]) {
    const { steps, text } = await converse(createBus(), bad);
    expect(steps).toEqual([]);
    expect(text).toMatch(/^I cannot follow this script: .+/);
    expect(text).toContain("/tool NAME");
  }
  expect((await converse(createBus(), "/etc/passwd is a path")).text).toBe("echo: /etc/passwd is a path");
});

test("ends a slow answer immediately on an interrupt and leaves no timer", async () => {
  const bus = createBus();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const call = bus.request({
      messages: [{ role: "user", content: "/slow 60000\n/say a long and slow answer" }],
    });
    await bus.until(() => bus.emitted.length > 0);
    await bus.send("user.interrupt", {}).handled;
    await call.handled;
    expect(bus.emitted).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("reports healthy without configuration", async () => {
  expect(await plugin.healthCheck?.(createBus().context())).toMatchObject({ status: "ok" });
});
