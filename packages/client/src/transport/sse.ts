/** Server-sent events as the gateway writes them: LF, UTF-8, one message per blank line. */
export interface SseMessage {
  id: string | null;
  event: string;
  data: string;
}

export async function* readSse(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder();
  let buffered = "";
  for await (const chunk of bytes) {
    buffered += decoder.decode(chunk, { stream: true });
    let end = buffered.indexOf("\n\n");
    while (end !== -1) {
      const message = parse(buffered.slice(0, end));
      buffered = buffered.slice(end + 2);
      if (message !== null) yield message;
      end = buffered.indexOf("\n\n");
    }
  }
}

/** Null for a comment, which is how the gateway says that it is still there. */
function parse(block: string): SseMessage | null {
  let id: string | null = null;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    const field = line.slice(0, colon);
    if (field === "id") id = value;
    else if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { id, event, data: data.join("\n") };
}
