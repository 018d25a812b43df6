/**
 * Whether a client prefers server-sent events to JSON, by its Accept header. Many clients, such as MCP clients, send
 * both types with every request and expect JSON from a route that has it, so a stream is sent only if its type has the
 * higher quality, or the same quality and comes first.
 */
export function prefersEventStream(accept: string | undefined): boolean {
  const types = (accept ?? "").split(",").map((entry) => {
    const [type, ...parameters] = entry.split(";").map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith("q="));
    return { type, quality: quality === undefined ? 1 : Number(quality.slice(2)) || 0 };
  });
  const best = Math.max(...types.map(({ quality }) => quality));
  const streams = types.findIndex(({ type, quality }) => type === "text/event-stream" && quality === best);
  const json = types.findIndex(({ type, quality }) => type === "application/json" && quality === best);
  return best > 0 && streams >= 0 && (json < 0 || streams < json);
}
