/** A block of the projection, with the fields that this compactor reads. */
export interface ChainBlock {
  entry_id?: number;
  kind: string;
  content: ContentPart[];
  name?: string;
  input?: unknown;
  structured_output?: unknown;
  tool_call_id?: string;
  from_entries?: number[];
}

interface ContentPart {
  type: string;
  text?: string;
  mimeType?: string;
  bytes?: number;
  resource?: { mimeType?: string; blob?: string };
}

/** The gateway counts an image, and each page of a PDF, as this many characters (spec/protocol.md). */
const IMAGE_CHARS = 6_400;
/** The assumed size of one page of a PDF. */
const PAGE_BYTES = 75_000;

/** The characters that the block takes in a context. */
export function sizeOf({ kind, content, input, structured_output }: ChainBlock): number {
  const size = kind === "tool_call" ? JSON.stringify(input ?? {}).length : sizeOfContent(content);
  return size + (JSON.stringify(structured_output)?.length ?? 0);
}

function sizeOfContent(content: readonly ContentPart[]): number {
  if (content.every(({ type }) => type === "text")) return JSON.stringify(content).length;
  return content.reduce((sum, part) => sum + sizeOfPart(part), 0);
}

function sizeOfPart(part: ContentPart): number {
  const { type, mimeType = "", resource, bytes = ((resource?.blob?.length ?? 0) * 3) / 4 } = part;
  const media_type = resource?.mimeType ?? mimeType;
  if (type === "image" || media_type.startsWith("image/")) return IMAGE_CHARS;
  if (media_type === "application/pdf") return IMAGE_CHARS * Math.max(1, Math.ceil(bytes / PAGE_BYTES));
  return JSON.stringify(part.text ?? part).length;
}

export function textOf({ kind, content, name, input }: ChainBlock): string {
  if (kind === "tool_call") return `${name ?? "tool"} ${JSON.stringify(input ?? {})}`;
  return content.flatMap(({ text }) => text ?? []).join("\n");
}
