/**
 * Shows the status of each request while a command waits for its response. A request whose route reports its progress
 * is aborted by Ctrl-C, which stops the work in the gateway; commands that can cancel other work have their own
 * listeners.
 */
import type { ClientOptions, RequestObserver } from "@backplane/client";
import { BackplaneError, type ProgressStep } from "@backplane/contract";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Io } from "../terminal/io.ts";
import type { Output } from "../terminal/output.ts";
import { progressText } from "../terminal/status-line.ts";

export function createRequestObserver(io: Io, out: Output): NonNullable<ClientOptions["observe"]> {
  return ({ progress }): RequestObserver => {
    const wait = out.status.begin("Waiting for the gateway");
    if (progress !== true) return { progress() {}, end: () => wait.end() };
    const stop = new AbortController();
    let step: ProgressStep | null = null;
    const stopListening = io.onSignal(() => {
      if (stop.signal.aborted) return io.exit(EXIT.interrupted);
      const message = "Interrupted. The gateway stops the work; changes that are already stored are kept.";
      stop.abort(new BackplaneError("request.cancelled", message, { details: { signal: "SIGINT", step } }));
    });
    return {
      signal: stop.signal,
      progress(event) {
        step = event.step;
        wait.update(progressText(event));
      },
      end() {
        stopListening();
        wait.end();
      },
    };
  };
}
