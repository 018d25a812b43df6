/** The order in which the parts of an answer are written to the socket. */
import type { Socket } from "node:net";
import type { Caller, LlmEndpointPart, LlmEndpoints } from "@backplane/ports";
import Fastify from "fastify";
import { expect, test } from "vitest";
import { createEndpointCalls } from "../../src/llm/answer-call.ts";
import { chat } from "../../src/llm/chat.ts";

test("sends the headers and the first part before it reads the next part", async () => {
  let sent_bytes = 0;
  let socket: Socket;
  async function* parts(): AsyncGenerator<LlmEndpointPart> {
    yield { type: "content", text: "a" };
    sent_bytes = socket.bytesWritten;
    yield { type: "content", text: "b" };
  }
  const calls = createEndpointCalls({
    kernel: {
      llm: { call: async () => ({ id: "llm_1", parts: parts() }) } as unknown as LlmEndpoints,
    },
    // The heartbeat is not due during the test.
    clock: { now: () => 0, monotonic: () => 0, after: () => ({ stop: () => undefined }) },
    isCredentialValid: async () => true,
    describe: () => expect.unreachable(),
  });
  const app = Fastify();
  app.post("/", async (request, reply) => {
    socket = request.raw.socket;
    const body = { model: "m", stream: true, messages: [] };
    await calls.answer(chat, { caller: {} as Caller, body, request, reply });
    return reply;
  });
  try {
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const text = await (await fetch(url, { method: "POST" })).text();
    expect(text).toMatch(/"content":"a".*"content":"b"/s);
    expect(sent_bytes).toBeGreaterThan(0);
  } finally {
    await app.close();
  }
});
