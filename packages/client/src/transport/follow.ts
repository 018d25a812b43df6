/**
 * Follows an event stream and reconnects with Last-Event-ID after a lost connection, so that no event that has an id is
 * missed or repeated. Ends without an error when the signal is aborted. Fails when the gateway refuses the request, or
 * when the connection has failed or ended `attempts` times since the last event.
 */
import { BackplaneError, codeOf, isErrorCode } from "@backplane/contract";
import type { Http } from "./http.ts";
import { readSse, type SseMessage } from "./sse.ts";

export interface FollowOptions {
  after?: number;
  signal?: AbortSignal;
  /** How often the connection may fail or end without a new event; default 5. */
  attempts?: number;
  /** The first delay between attempts, which doubles up to 5 s; default 250. */
  retry_ms?: number;
}

export async function* follow(
  http: Http,
  path: string,
  options: FollowOptions,
  isLast: (message: SseMessage) => boolean,
): AsyncGenerator<SseMessage> {
  const attempts = options.attempts ?? 5;
  let after = options.after ?? 0;
  let failures = 0;
  let failure: unknown;
  while (!options.signal?.aborted) {
    try {
      const response = await http.open({
        method: "GET",
        path,
        headers: { accept: "text/event-stream", "last-event-id": after > 0 ? String(after) : undefined },
        signal: options.signal,
      });
      for await (const message of readSse(response.body as unknown as AsyncIterable<Uint8Array>)) {
        if (message.event === "error") throw parseError(message.data);
        failures = 0;
        if (message.id !== null) after = Number(message.id);
        yield message;
        if (isLast(message)) return;
      }
      failure = undefined;
    } catch (error) {
      if (options.signal?.aborted) return;
      const code = codeOf(error);
      if (code !== undefined && code !== "daemon.unreachable" && code !== "gateway_stopping") throw error;
      failure = error;
    }
    if (++failures >= attempts) throw codeOf(failure) ? failure : interruptedError(path, attempts, failure);
    await delay(Math.min((options.retry_ms ?? 250) * 2 ** (failures - 1), 5_000), options.signal);
  }
}

function interruptedError(path: string, attempts: number, cause: unknown): BackplaneError {
  const message = `The event stream ${path} ended ${attempts} times without a new event.`;
  return new BackplaneError("daemon.unreachable", message, { cause });
}

function parseError(data: string): BackplaneError {
  const { error } = JSON.parse(data) as { error: { code: string; message: string } };
  return new BackplaneError(isErrorCode(error.code) ? error.code : "internal", error.message);
}

function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
