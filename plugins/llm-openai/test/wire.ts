/** Builds OpenAI's streams in their wire format. */

const BASE = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-test-2026" };

export const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
export const done = "data: [DONE]\n\n";

export function chunk(delta: object, finish_reason: string | null = null): string {
  return data({ ...BASE, choices: [{ index: 0, delta, finish_reason }] });
}

export function usage(prompt_tokens: number, cached_tokens: number, completion_tokens: number): string {
  const prompt_tokens_details = { cached_tokens };
  const total_tokens = prompt_tokens + completion_tokens;
  return data({
    ...BASE,
    choices: [],
    usage: { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details },
  });
}

export function text(...texts: string[]): string {
  const first = chunk({ role: "assistant", content: "" });
  return first + texts.map((content) => chunk({ content })).join("") + chunk({}, "stop");
}

/** An event of OpenAI's Responses API. */
export function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 0, ...fields })}\n\n`;
}
