/** The events of the gateway: the latest stored ones, then new ones. */
import type { SemanticEvent } from "@backplane/contract";
import { useCallback, useRef, useState } from "react";
import { type LiveStream, useLiveStream } from "./live-stream.ts";
import { useClient } from "./services.ts";

/** The number of stored events that are loaded first. */
const INITIAL_EVENTS = 500;
/** Older events are removed from the list. */
const MAX_EVENTS = 5_000;
/** Draws the events of one burst together. */
const BATCH_MS = 60;
/** If no event arrives for this long, the list counts as loaded; the stream does not mark where stored events end. */
const FIRST_EVENT_MS = 1_000;

export interface EventFeed extends LiveStream {
  /** Newest first. */
  events: readonly SemanticEvent[];
  loaded: boolean;
}

export function useEventFeed(): EventFeed {
  const client = useClient();
  const received = useRef<SemanticEvent[]>([]);
  const [events, setEvents] = useState<readonly SemanticEvent[]>([]);
  const [loaded, setLoaded] = useState(false);
  const run = useCallback(
    async (signal: AbortSignal) => {
      const position = await client.events.position({ signal });
      const after = received.current.at(-1)?.seq ?? Math.max(0, position - INITIAL_EVENTS);
      let batch: number | undefined;
      const show = () => {
        batch = undefined;
        received.current = received.current.slice(-MAX_EVENTS);
        setEvents(received.current.toReversed());
        setLoaded(true);
      };
      const first = setTimeout(() => setLoaded(true), position === after ? 0 : FIRST_EVENT_MS);
      try {
        for await (const event of client.events.watch({ after, signal })) {
          received.current.push(event);
          batch ??= setTimeout(show, BATCH_MS);
        }
      } finally {
        clearTimeout(first);
        if (batch !== undefined) {
          clearTimeout(batch);
          show();
        }
      }
    },
    [client],
  );
  return { events, loaded, ...useLiveStream(run) };
}
