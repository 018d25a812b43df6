/**
 * The thread that owns the file, so that no commit and no search blocks the host's event loop. Writes that
 * are queued together are committed together, and each is answered only when its commit is on disk.
 */
import { join } from "node:path";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { MemoryEntry } from "@backplane/sdk/kernel";
import { openDatabase } from "./database.ts";
import {
  createNotes,
  type EmbeddedNotes,
  type NoteScope,
  type Query,
  type UnembeddedNote,
  type Write,
} from "./notes.ts";

export interface ThreadData {
  dir: string;
  fullText?: boolean;
}

export type ThreadRequest = { call: number } & (
  | { op: "write"; write: Write }
  | { op: "query"; query: Query }
  | { op: "unembedded"; scope: NoteScope; space: string | null; limit: number }
  | { op: "embed"; notes: EmbeddedNotes }
  | { op: "check" }
  | { op: "close" }
);
export interface NotesCheck {
  entries: number;
  fullText: boolean;
}
export type ThreadValue = MemoryEntry[] | UnembeddedNote[] | NotesCheck | null;
export type ThreadResponse = { call: number } & ({ value: ThreadValue } | { error: string });

type WriteRequest = Extract<ThreadRequest, { op: "write" }>;

const { dir, fullText } = workerData as ThreadData;
const port = parentPort!;
const database = openDatabase({
  file: join(dir, "memory.db"),
  ...(fullText === undefined ? {} : { fullText }),
});
const notes = createNotes(database);

port.on("message", (first: ThreadRequest) => {
  const writes: WriteRequest[] = [];
  for (let ask: ThreadRequest | undefined = first; ask !== undefined; ask = nextRequest()) {
    if (ask.op === "write") {
      writes.push(ask);
      continue;
    }
    // Requests are handled in their order of arrival.
    commit(writes.splice(0));
    answer(ask);
  }
  commit(writes);
});

function nextRequest(): ThreadRequest | undefined {
  return (receiveMessageOnPort(port) as { message: ThreadRequest } | undefined)?.message;
}

function commit(asks: WriteRequest[]): void {
  if (asks.length === 0) return;
  try {
    notes.write(asks.map(({ write }) => write));
    for (const { call } of asks) reply({ call, value: null });
  } catch (error) {
    // Each write is retried alone, so that one invalid note does not fail the others.
    if (asks.length > 1) for (const ask of asks) commit([ask]);
    else reply({ call: asks[0]!.call, error: (error as Error).message });
  }
}

function answer(ask: Exclude<ThreadRequest, WriteRequest>): void {
  const { call } = ask;
  try {
    switch (ask.op) {
      case "query":
        reply({ call, value: notes.query(ask.query) });
        break;
      case "unembedded":
        reply({ call, value: notes.unembedded(ask.scope, ask.space, ask.limit) });
        break;
      case "embed":
        notes.embed(ask.notes);
        reply({ call, value: null });
        break;
      case "check":
        reply({ call, value: { entries: notes.count(), fullText: database.fullText } });
        break;
      case "close":
        database.close();
        reply({ call, value: null });
        port.close();
    }
  } catch (error) {
    reply({ call, error: (error as Error).message });
  }
}

function reply(message: ThreadResponse): void {
  port.postMessage(message);
}
