/**
 * The event stream of this tab. Each event marks the cached lists of its noun as outdated, so that pages show the
 * change.
 *
 *   connecting → live → reconnecting → live …
 *   paused: the tab is hidden; signed-out: the browser is not signed in
 *
 * After a lost connection the stream resumes after the last event, and every list is loaded again, because not every
 * change has an event. A browser opens only six connections to one host across all of its tabs, so a hidden tab closes
 * its connection after a minute.
 */
import { readSse } from "@backplane/client";
import type { SemanticEvent } from "@backplane/contract";
import type { QueryClient } from "@tanstack/react-query";
import { nounsOf } from "./nouns.ts";
import { createRefreshBatch } from "./refresh-batch.ts";

export type LiveState = "connecting" | "live" | "reconnecting" | "signed-out" | "paused";

export interface LiveConnection {
  state: () => LiveState;
  /** Returns an unsubscribe function. */
  onState: (listener: () => void) => () => void;
  onEvent: (listener: (event: SemanticEvent) => void) => () => void;
  /** Connects again immediately if the tab is not connected; otherwise checks whether it is still signed in. */
  recheck: () => void;
  close: () => void;
}

const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 2_000;
/** The gateway sends a heartbeat every 15 seconds. */
const SILENCE_MS = 40_000;
const HIDDEN_MS = 60_000;

export function createLiveConnection(queries: QueryClient): LiveConnection {
  const state_listeners = new Set<() => void>();
  const event_listeners = new Set<(event: SemanticEvent) => void>();
  const tabs = new BroadcastChannel("login");
  const batch = createRefreshBatch(queries);
  let state: LiveState = "connecting";
  let cursor: string = "latest";
  let delay = FIRST_DELAY_MS;
  let connection: AbortController | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let hide: ReturnType<typeof setTimeout> | undefined;
  let was_live = false;

  function setState(next: LiveState): void {
    if (next === state) return;
    state = next;
    for (const listener of state_listeners) listener();
  }

  async function connect(): Promise<void> {
    clearTimeout(retry);
    connection?.abort();
    const current = new AbortController();
    connection = current;
    const silence = watchSilence(current);
    try {
      const response = await fetch(`/v1/events?after=${cursor}`, {
        headers: { accept: "text/event-stream" },
        signal: current.signal,
      });
      if (response.status === 401) {
        setState("signed-out");
        connection = null;
        return;
      }
      if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
      onOpened();
      const bytes = response.body.pipeThrough(silence.monitor) as unknown as AsyncIterable<Uint8Array>;
      for await (const { id, event, data } of readSse(bytes)) {
        if (event === "error") break;
        if (id !== null) cursor = id;
        if (event !== "position") receive(JSON.parse(data) as SemanticEvent);
      }
    } catch {
      // The connection was lost or refused; the next attempt follows below.
    } finally {
      silence.stop();
    }
    if (connection !== current) return;
    connection = null;
    setState(state === "connecting" ? "connecting" : "reconnecting");
    retry = setTimeout(() => void connect(), delay);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }

  function onOpened(): void {
    delay = FIRST_DELAY_MS;
    setState("live");
    if (was_live) void queries.invalidateQueries();
    was_live = true;
    tabs.postMessage("signed-in");
  }

  function receive(event: SemanticEvent): void {
    for (const noun of nounsOf(event.type)) batch.add(noun);
    for (const listener of event_listeners) listener(event);
  }

  function recheck(): void {
    if (state !== "live") void connect();
    else void checkSignIn();
  }

  /** An open stream survives the end of the sign-in, so a separate request finds out whether the sign-in has ended. */
  async function checkSignIn(): Promise<void> {
    const status = await fetch("/v1/status").then(
      (response) => response.status,
      () => 0,
    );
    if (status !== 401) return;
    connection?.abort();
    connection = null;
    setState("signed-out");
  }

  function pause(): void {
    if (state !== "live") return;
    connection?.abort();
    connection = null;
    setState("paused");
  }

  const onVisibility = () => {
    clearTimeout(hide);
    if (document.hidden) hide = setTimeout(pause, HIDDEN_MS);
    else if (state !== "live") void connect();
  };
  const onFocus = () => {
    if (state === "signed-out") void connect();
  };
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("focus", onFocus);
  addEventListener("online", onVisibility);
  tabs.addEventListener("message", onFocus);
  void connect();

  return {
    state: () => state,
    onState(listener) {
      state_listeners.add(listener);
      return () => state_listeners.delete(listener);
    },
    onEvent(listener) {
      event_listeners.add(listener);
      return () => event_listeners.delete(listener);
    },
    recheck,
    close() {
      clearTimeout(retry);
      clearTimeout(hide);
      batch.stop();
      connection?.abort();
      connection = null;
      tabs.close();
      document.removeEventListener("visibilitychange", onVisibility);
      removeEventListener("focus", onFocus);
      removeEventListener("online", onVisibility);
    },
  };
}

/** Aborts a connection on which nothing arrives; a browser notices a broken one only after minutes. */
function watchSilence(connection: AbortController) {
  let timer = setTimeout(() => connection.abort(), SILENCE_MS);
  const monitor = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      clearTimeout(timer);
      timer = setTimeout(() => connection.abort(), SILENCE_MS);
      controller.enqueue(chunk);
    },
  });
  return { monitor, stop: () => clearTimeout(timer) };
}
