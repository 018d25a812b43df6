/** Builds Anthropic's streams in their wire format. */

export function event(type: string, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

export function start(usage: object = { input_tokens: 10, output_tokens: 1 }): string {
  const message = { id: "msg_1", type: "message", role: "assistant", content: [], model: "claude-test-2026" };
  return event("message_start", { message: { ...message, stop_reason: null, stop_sequence: null, usage } });
}

export const ping = event("ping");

export function block(index: number, content_block: object, ...deltas: object[]): string {
  return (
    event("content_block_start", { index, content_block }) +
    deltas.map((delta) => event("content_block_delta", { index, delta })).join("") +
    event("content_block_stop", { index })
  );
}

export function text(index: number, ...chunks: string[]): string {
  const deltas = chunks.map((chunk) => ({ type: "text_delta", text: chunk }));
  return block(index, { type: "text", text: "" }, ...deltas);
}

export function toolUse(index: number, id: string, name: string, ...chunks: string[]): string {
  const deltas = chunks.map((partial_json) => ({ type: "input_json_delta", partial_json }));
  return block(index, { type: "tool_use", id, name, input: {} }, ...deltas);
}

export function stop(stop_reason: string, output_tokens: number): string {
  return (
    event("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens } }) +
    event("message_stop")
  );
}
