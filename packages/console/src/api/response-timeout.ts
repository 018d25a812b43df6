/** Ends a request that gets no response, so that a page shows an error with a retry instead of loading forever. */

/** Well above the slowest ordinary response. */
const RESPONSE_MS = 15_000;

/** Event streams have no limit. A request with `wait` gets that time in addition. */
export function withResponseTimeout(send: typeof fetch, response_ms = RESPONSE_MS): typeof fetch {
  return (input, init = {}) => {
    if (new Headers(init.headers).get("accept")?.includes("text/event-stream") === true)
      return send(input, init);
    const url = new URL(input instanceof Request ? input.url : input);
    const limit = AbortSignal.timeout(response_ms + 1_000 * Number(url.searchParams.get("wait") ?? 0));
    return send(input, { ...init, signal: init.signal ? AbortSignal.any([init.signal, limit]) : limit });
  };
}
