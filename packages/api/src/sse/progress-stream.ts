/**
 * Runs a request as an event stream: `progress` items while it works, then one `result` item with the body of the JSON
 * response. A failure becomes the `error` item of the stream. When the client disconnects, the operation is cancelled.
 */
import type { ProgressEvent, ProgressReport } from "@backplane/contract";
import type { Clock, Operation } from "@backplane/ports";
import type { RouteResponse } from "../http/route.ts";
import type { SseItem } from "./event-streams.ts";

/** How often counts within one step are sent. A new step is sent immediately. */
const UPDATE_MS = 250;
/** How often the last report is repeated. A client must get an item at least every 2 s, even if timers fire late. */
const REPEAT_MS = 1_000;

const INITIAL_REPORT: ProgressReport = { step: "read", message: "Reading the request" };

export async function* progressItems(
  clock: Clock,
  operation_id: string,
  stop: AbortSignal,
  work: (operation: Operation) => RouteResponse | Promise<RouteResponse>,
): AsyncGenerator<SseItem> {
  const started_at = clock.monotonic();
  const pending: ProgressReport[] = [];
  let last = INITIAL_REPORT;
  let sent_at = started_at;
  let ended = false;
  let wake = () => {};
  const report = (progress: ProgressReport) => {
    if (pending.at(-1)?.step === progress.step) pending.pop();
    else if (progress.step !== last.step) wake();
    pending.push(progress);
  };
  const result = (async () => await work({ signal: stop, report }))();
  const end = () => {
    ended = true;
    wake();
  };
  result.then(end, end);
  const wait = () =>
    new Promise<void>((resolve) => {
      const timer = clock.after(UPDATE_MS, resolve);
      wake = () => {
        timer.stop();
        resolve();
      };
      if (ended) wake();
    });
  const item = (progress: ProgressReport): SseItem => {
    last = progress;
    sent_at = clock.monotonic();
    const event: ProgressEvent = { operation_id, ...progress, elapsed_ms: Math.round(sent_at - started_at) };
    return { event: "progress", data: JSON.stringify(event) };
  };
  for (;;) {
    for (const progress of pending.splice(0)) yield item(progress);
    if (ended) break;
    await wait();
    if (pending.length === 0 && clock.monotonic() - sent_at >= REPEAT_MS) yield item(last);
  }
  yield { event: "result", data: bodyOf(await result) };
}

function bodyOf(response: RouteResponse): string {
  if ("json" in response) return JSON.stringify(response.json);
  return "text" in response ? response.text : "null";
}
