/**
 * The running turn of a session: the answer, thoughts and progress that are not on the tape. Each new entry of the tape
 * refreshes the cached tape, so a finished turn is shown as the gateway stored it.
 */
import type { SessionUpdate } from "@backplane/client";
import { useCallback, useEffect, useState } from "react";
import { useLiveStream } from "./live-stream.ts";
import { useServices } from "./services.ts";
import { canFollow, type LoadedTape, type SessionAddress, tapeKey } from "./sessions.ts";

export interface ToolProgress {
  /** The last status line of the tool. */
  status: string;
  /** The end of its output. */
  output: string;
}

export interface LiveTurn {
  /** The answer as it streams. `stored_as` is the entry that contains it, once there is one. */
  answer: { text: string; iteration: number; stored_as: number | null } | null;
  /** The thoughts of each model call, which are not stored, and the entry that they follow. */
  thoughts: readonly { text: string; request_id: string; after: number }[];
  /** The progress of running tools by the id of the call. */
  progress: Readonly<Record<string, ToolProgress>>;
  /** Whether earlier messages are being summarized. */
  compacting?: boolean;
  /** Why the last compaction failed. */
  compaction_error?: string | null;
}

const NO_LIVE_TURN: LiveTurn = { answer: null, thoughts: [], progress: {} };
/** How many characters of a running tool's output are kept, from its end. The result repeats the output. */
const MAX_OUTPUT = 8_000;

/** Events that announce a new anchor or chain, whose entries the stream does not send. */
const NEW_CHAIN: ReadonlySet<string> = new Set([
  "session.reset",
  "session.handoff",
  "session.compaction.completed",
]);

/** Collects the entries of one burst, so that the tape is loaded once. */
const BATCH_MS = 80;

/** `last_entry_id` is null while the session does not exist. */
export function useLiveTurn(
  { session_id, workspace }: SessionAddress,
  last_entry_id: number | null,
): LiveTurn {
  const exists = last_entry_id !== null;
  const visible = useVisibleTab();
  const { client, queries } = useServices();
  const [turn, setTurn] = useState(NO_LIVE_TURN);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the start of the stream needs the last entry
  const run = useCallback(
    async (signal: AbortSignal) => {
      const key = { session_id, workspace };
      if (!canFollow(key) || !exists || !visible) return;
      // Entries that were appended since the tape was loaded are replayed, so that none is missed.
      const since_entry =
        queries.getQueryData<LoadedTape>(tapeKey(key))?.entries.at(-1)?.id ?? last_entry_id ?? 0;
      let last = since_entry;
      let batch: ReturnType<typeof setTimeout> | undefined;
      let loading = false;
      let outdated = false;
      const refresh = async () => {
        batch = undefined;
        outdated = loading;
        if (loading) return;
        loading = true;
        // A running request is not restarted; otherwise a busy turn would show nothing until it ends.
        await queries.invalidateQueries({ queryKey: tapeKey(key) }, { cancelRefetch: false });
        loading = false;
        // The request may have been sent before the newest entry was written.
        const loaded = queries.getQueryData<LoadedTape>(tapeKey(key))?.entries.at(-1)?.id ?? last;
        if ((outdated || loaded < last) && !signal.aborted) batch ??= setTimeout(refresh, BATCH_MS);
      };
      // An answer that is still streaming is sent again from its beginning.
      setTurn((current) => ({ ...current, answer: null, compacting: false }));
      try {
        for await (const update of client.watchSession(key, { since_entry, signal })) {
          if (update.entry_id !== null) {
            last = Math.max(last, update.entry_id);
            batch ??= setTimeout(refresh, BATCH_MS);
          }
          const after = last;
          if (NEW_CHAIN.has(update.event.kind)) {
            batch ??= setTimeout(refresh, BATCH_MS);
            void queries.invalidateQueries({ queryKey: ["sessions"] });
          }
          setTurn((current) => addUpdate(current, update, after));
        }
      } finally {
        if (batch !== undefined) clearTimeout(batch);
      }
    },
    [client, queries, session_id, workspace, exists, visible],
  );
  useLiveStream(run);
  return turn;
}

/** A browser opens only six connections to one host across all of its tabs, so a hidden tab soon closes this one. */
const HIDDEN_MS = 5_000;

function useVisibleTab(): boolean {
  const [visible, setVisible] = useState(() => !document.hidden);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onChange = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => setVisible(false), HIDDEN_MS);
      else setVisible(true);
    };
    document.addEventListener("visibilitychange", onChange);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onChange);
    };
  }, []);
  return visible;
}

export function addUpdate(turn: LiveTurn, { event, entry_id }: SessionUpdate, last: number): LiveTurn {
  const payload = event.payload as Record<string, unknown>;
  const { answer, thoughts, progress } = turn;
  switch (event.kind) {
    case "assistant.message.delta": {
      const iteration = Number(payload.iteration ?? 0);
      const text = String(payload.content);
      const continues = answer !== null && answer.stored_as === null && answer.iteration === iteration;
      const whole = continues && payload.catch_up !== true ? answer.text + text : text;
      return { ...turn, answer: { text: whole, iteration, stored_as: null } };
    }
    case "llm.call.delta": {
      if (typeof payload.thinking !== "string") return turn;
      const request_id = String(payload.request_id);
      const open = thoughts.at(-1);
      if (open?.request_id !== request_id)
        return { ...turn, thoughts: [...thoughts, { text: payload.thinking, request_id, after: last }] };
      const text = payload.catch_up === true ? payload.thinking : open.text + payload.thinking;
      return { ...turn, thoughts: [...thoughts.slice(0, -1), { ...open, text }] };
    }
    case "x.loop.tool.progress": {
      const id = String(payload.id);
      return { ...turn, progress: { ...progress, [id]: addProgress(progress[id], payload) } };
    }
    case "llm.call.error":
    case "kernel.error":
      // The text so far is discarded; a retry begins again.
      return { ...turn, answer: null };
    case "session.compaction.started":
      return { ...turn, compacting: true, compaction_error: null };
    case "session.compaction.completed":
      return { ...turn, compacting: false };
    case "session.compaction.failed":
      return { ...turn, compacting: false, compaction_error: String(payload.error) };
    case "assistant.message.done":
    case "llm.call.response":
      return answer === null || entry_id === null
        ? turn
        : { ...turn, answer: { ...answer, stored_as: answer.stored_as ?? entry_id } };
    default:
      return turn;
  }
}

/** Output arrives in pieces and is appended; a status replaces the previous status. */
function addProgress(known: ToolProgress | undefined, payload: Record<string, unknown>): ToolProgress {
  const { status, output } = payload;
  return {
    status: typeof status === "string" ? status : (known?.status ?? ""),
    output: ((known?.output ?? "") + (typeof output === "string" ? output : "")).slice(-MAX_OUTPUT),
  };
}
