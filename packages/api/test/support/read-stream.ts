export interface StreamItem {
  id: string | null;
  event: string;
  data: string;
}

/** Reads server-sent events over a real socket until the stream ends or the signal is aborted. */
export async function readStream(
  url: string,
  { each, ...init }: RequestInit & { each?: (item: StreamItem) => void } = {},
): Promise<StreamItem[]> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  const items: StreamItem[] = [];
  let text = "";
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const item = parse(text.slice(0, end));
        text = text.slice(end + 2);
        if (item === null) continue;
        items.push(item);
        each?.(item);
      }
    }
  } catch (error) {
    if (init.signal?.aborted !== true) throw error;
  }
  return items;
}

function parse(block: string): StreamItem | null {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? null;
  const data = field("data");
  return data === null ? null : { id: field("id"), event: field("event") ?? "message", data };
}
