/**
 * The host's side of the thread. If the thread dies, its pending requests fail, which is correct because no
 * unanswered write was acknowledged; the next call starts a new thread. The thread keeps the process alive
 * only while a call is pending.
 */
import { Worker } from "node:worker_threads";
import type { MemoryEntry } from "@backplane/sdk/kernel";
import type { EmbeddedNotes, NoteScope, Query, UnembeddedNote, Write } from "./notes.ts";
import type { NotesCheck, ThreadData, ThreadRequest, ThreadResponse, ThreadValue } from "./notes-thread.ts";

export interface OpenNotes {
  /** Resolves when the note is on disk. */
  write(write: Write): Promise<void>;
  query(query: Query): Promise<MemoryEntry[]>;
  listUnembedded(scope: NoteScope, space: string | null, limit: number): Promise<UnembeddedNote[]>;
  embed(notes: EmbeddedNotes): Promise<void>;
  check(): Promise<NotesCheck>;
  /** Closes after all earlier requests. Safe to call twice. */
  close(): Promise<void>;
}

interface PendingRequest {
  resolve(value: ThreadValue): void;
  reject(error: Error): void;
}

interface Thread {
  worker: Worker;
  pending: Map<number, PendingRequest>;
}

type RequestBody = ThreadRequest extends infer One
  ? One extends ThreadRequest
    ? Omit<One, "call">
    : never
  : never;

const LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 1 };

export function openNotes(data: ThreadData): OpenNotes {
  let thread: Thread | null = null;
  let calls = 0;
  let closing: Promise<void> | null = null;

  function start(): Thread {
    const worker = new Worker(threadEntry(), { workerData: data, resourceLimits: LIMITS, name: "memory" });
    const started: Thread = { worker, pending: new Map() };
    const fail = (error: Error) => {
      if (thread === started) thread = null;
      for (const request of started.pending.values()) request.reject(error);
      started.pending.clear();
    };
    worker.on("message", (response: ThreadResponse) => {
      const request = started.pending.get(response.call);
      started.pending.delete(response.call);
      if (started.pending.size === 0) worker.unref();
      if ("error" in response) request?.reject(new Error(response.error));
      else request?.resolve(response.value);
    });
    worker.on("error", fail);
    worker.on("exit", () => fail(new Error("The memory's thread ended before it answered.")));
    return started;
  }

  function send<T extends ThreadValue>(body: RequestBody): Promise<T> {
    thread ??= start();
    const { worker, pending } = thread;
    calls += 1;
    const call = calls;
    return new Promise<T>((resolve, reject) => {
      pending.set(call, { resolve: resolve as PendingRequest["resolve"], reject });
      worker.ref();
      worker.postMessage({ ...body, call } as ThreadRequest);
    });
  }

  /** A thread that dies during the close has closed the file too, so its error is ignored. */
  async function closeThread(): Promise<void> {
    if (thread !== null) await send<null>({ op: "close" }).catch(() => null);
  }

  const sendIfOpen = <T extends ThreadValue>(body: RequestBody): Promise<T> =>
    closing === null ? send<T>(body) : Promise.reject(new Error("The memory is closed."));

  return {
    async write(write) {
      await sendIfOpen<null>({ op: "write", write });
    },
    query: (query) => sendIfOpen<MemoryEntry[]>({ op: "query", query }),
    listUnembedded: (scope, space, limit) =>
      sendIfOpen<UnembeddedNote[]>({ op: "list_unembedded", scope, space, limit }),
    async embed(notes) {
      await sendIfOpen<null>({ op: "embed", notes });
    },
    check: () => sendIfOpen<NotesCheck>({ op: "check" }),
    close() {
      closing ??= closeThread();
      return closing;
    },
  };
}

/** The thread's module is in the same folder as this file, in the sources and in the build. */
function threadEntry(): URL {
  return new URL(
    import.meta.url.endsWith(".ts") ? "./notes-thread.ts" : "./notes-thread.js",
    import.meta.url,
  );
}
