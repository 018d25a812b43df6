/** A block of the projection, with the fields that this compactor reads. */
export interface ChainBlock {
  entry_id?: number;
  kind: string;
  content: { type: string; text?: string }[];
  name?: string;
  input?: unknown;
  structured_output?: unknown;
  tool_call_id?: string;
  from_entries?: number[];
}

/** The characters that the block takes in a context. */
export function sizeOf({ kind, content, input, structured_output }: ChainBlock): number {
  const text = JSON.stringify(kind === "tool_call" ? (input ?? {}) : content);
  return text.length + (JSON.stringify(structured_output)?.length ?? 0);
}

export function textOf({ kind, content, name, input }: ChainBlock): string {
  if (kind === "tool_call") return `${name ?? "tool"} ${JSON.stringify(input ?? {})}`;
  return content.flatMap(({ text }) => text ?? []).join("\n");
}
