/** Checks whether the file is a memory database and how large it is, and closes the file again. */
import { join } from "node:path";
import { openDatabase } from "./database.ts";
import { createNotes } from "./notes.ts";
import type { NotesCheck, ThreadData } from "./notes-thread.ts";

export function checkNotes({ dir, fullText }: ThreadData): NotesCheck {
  const file = join(dir, "memory.db");
  const database = openDatabase({ file, ...(fullText === undefined ? {} : { fullText }) });
  try {
    return { entries: createNotes(database).count(), fullText: database.fullText };
  } finally {
    database.close();
  }
}
