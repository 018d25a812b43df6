/** The events of a call: progress, logs and questions of its plugin. Follows the call while it runs. */
import type { InvocationEvent } from "@backplane/contract";
import { useCallback, useRef, useState } from "react";
import { useLiveStream } from "./live-stream.ts";
import { useClient } from "./services.ts";

const MAX_EVENTS = 2_000;
/** Draws the events of one burst together. */
const BATCH_MS = 60;

/** Oldest first. */
export function useInvocationEvents(id: string): readonly InvocationEvent[] {
  const client = useClient();
  const received = useRef<InvocationEvent[]>([]);
  const [events, setEvents] = useState<readonly InvocationEvent[]>([]);
  const run = useCallback(
    async (signal: AbortSignal) => {
      let batch: ReturnType<typeof setTimeout> | undefined;
      const show = () => {
        batch = undefined;
        setEvents([...received.current]);
      };
      try {
        const after = received.current.at(-1)?.seq;
        for await (const update of client.invocations.watch(id, {
          signal,
          ...(after === undefined ? {} : { after }),
        })) {
          if ("settled" in update) break;
          received.current = [...received.current, update].slice(-MAX_EVENTS);
          batch ??= setTimeout(show, BATCH_MS);
        }
      } finally {
        clearTimeout(batch);
        show();
      }
    },
    [client, id],
  );
  useLiveStream(run);
  return events;
}
