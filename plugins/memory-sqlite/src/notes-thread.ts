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
  full_text?: boolean;
}

export type ThreadRequest = { call: number } & (
  | { op: "write"; write: Write }
  | { op: "query"; query: Query }
  | { op: "list_unembedded"; scope: NoteScope; space: string | null; limit: number }
  | { op: "embed"; notes: EmbeddedNotes }
  | { op: "check" }
  | { op: "close" }
);
export interface NotesCheck {
  entries: number;
  full_text: boolean;
}
export type ThreadValue = MemoryEntry[] | UnembeddedNote[] | NotesCheck | null;
export type ThreadResponse = { call: number } & ({ value: ThreadValue } | { error: string });

type WriteRequest = Extract<ThreadRequest, { op: "write" }>;

const { dir, full_text } = workerData as ThreadData;
const port = parentPort!;
const database = openDatabase({
  file: join(dir, "memory.db"),
  ...(full_text === undefined ? {} : { full_text }),
});
const notes = createNotes(database);

port.on("message", (first: ThreadRequest) => {
  const writes: WriteRequest[] = [];
  for (let request: ThreadRequest | undefined = first; request !== undefined; request = nextRequest()) {
    if (request.op === "write") {
      writes.push(request);
      continue;
    }
    // Requests are handled in their order of arrival.
    commit(writes.splice(0));
    answer(request);
  }
  commit(writes);
});

function nextRequest(): ThreadRequest | undefined {
  return (receiveMessageOnPort(port) as { message: ThreadRequest } | undefined)?.message;
}

function commit(requests: WriteRequest[]): void {
  if (requests.length === 0) return;
  try {
    notes.write(requests.map(({ write }) => write));
    for (const { call } of requests) reply({ call, value: null });
  } catch (error) {
    // Each write is retried alone, so that one invalid note does not fail the others.
    if (requests.length > 1) for (const request of requests) commit([request]);
    else reply({ call: requests[0]!.call, error: (error as Error).message });
  }
}

function answer(request: Exclude<ThreadRequest, WriteRequest>): void {
  const { call } = request;
  try {
    switch (request.op) {
      case "query":
        reply({ call, value: notes.query(request.query) });
        break;
      case "list_unembedded":
        reply({ call, value: notes.listUnembedded(request.scope, request.space, request.limit) });
        break;
      case "embed":
        notes.embed(request.notes);
        reply({ call, value: null });
        break;
      case "check":
        reply({ call, value: { entries: notes.count(), full_text: database.full_text } });
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
