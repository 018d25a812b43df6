/** Model calls of API clients in the kernel: what remains after a crash, and what a client without a provider gets. */
import type { KernelPlugin } from "@backplane/contract";
import type { LlmEndpointPart, LlmEndpointRequest } from "@backplane/ports";
import { admin, createTestKernel, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

/** A provider that is asked and never answers. */
function silentProvider(asked: string[] = []): KernelPlugin {
  return {
    name: "llm-silent",
    version: "1.0.0",
    category: "llm-provider",
    providerId: "llm-silent",
    configSchema: { type: "object", properties: { model: { type: "string", default: "m" } } },
    subscriptions: () => ["llm.call.request"],
    onEvent: ({ id }) => void asked.push(id),
  };
}

const request: LlmEndpointRequest = {
  protocol: "chat",
  model: "llm-silent/m",
  stream: true,
  messages: [{ role: "user", content: "hello" }],
  tools: [],
  options: {},
  body: { model: "llm-silent/m", messages: [{ role: "user", content: "hello" }] },
  headers: {},
};

verifies("llm.gateway", "reports a model call as lost after a crash of the gateway", async () => {
  const asked: string[] = [];
  const first = await createTestKernel({ plugins: [silentProvider(asked)] });
  const { id } = await first.kernel.llm.call(admin, request, new AbortController().signal);
  await until(() => asked.length === 1);
  expect(await first.kernel.llm.get(admin, id)).toMatchObject({ status: "running", usage: null });
  await first.crash();
  const second = await createTestKernel({ file: first.file, plugins: [silentProvider()] });
  expect(await second.kernel.llm.get(admin, id)).toMatchObject({ status: "lost", actor: "admin" });
});

test("cancels and settles running model calls when the gateway stops", async () => {
  const { kernel, store } = await createTestKernel({ plugins: [silentProvider()] });
  const { id, parts } = await kernel.llm.call(admin, request, new AbortController().signal);
  const ended = parts[Symbol.asyncIterator]().next();
  const failed = expect(ended).rejects.toMatchObject({ code: "cancelled" });
  await kernel.stop(0);
  await failed;
  expect(await store.llm_calls.get(admin.scope, id)).toMatchObject({ status: "cancelled" });
});

test("delivers the answer of a provider that does not stream", async () => {
  const whole: KernelPlugin = {
    ...silentProvider(),
    async onEvent({ id, session_id }, ctx) {
      const tool_calls = [{ id: "c1", name: "look", args: { at: "it" } }];
      const payload = { text: "all at once", tool_calls, usage: { output: 3 }, request_id: id };
      await ctx.emit("llm.call.response", payload, { session_id });
    },
  };
  const { kernel } = await createTestKernel({ plugins: [whole] });
  const { parts } = await kernel.llm.call(admin, request, new AbortController().signal);
  const all: LlmEndpointPart[] = [];
  for await (const part of parts) all.push(part);
  expect(all).toMatchObject([
    { type: "content", text: "all at once" },
    { type: "tool_call", index: 0, id: "c1", name: "look", args: '{"at":"it"}' },
    { type: "end", usage: { output: 3 } },
  ]);
});

test("writes no record for a model that no instance offers", async () => {
  const { kernel } = await createTestKernel({ plugins: [silentProvider()] });
  const unknown = { ...request, model: "gpt-none" };
  await expect(kernel.llm.call(admin, unknown, new AbortController().signal)).rejects.toMatchObject({
    code: "llm.model_not_found",
  });
  expect((await kernel.llm.list(admin, {}, { limit: 5 })).items).toEqual([]);
});

test("refuses model calls in an archived project", async () => {
  const { kernel } = await createTestKernel({ plugins: [silentProvider()] });
  await kernel.policy.patch(admin, "project", { archived: true });
  await expect(kernel.llm.call(admin, request, new AbortController().signal)).rejects.toMatchObject({
    code: "authority.project_archived",
  });
});
