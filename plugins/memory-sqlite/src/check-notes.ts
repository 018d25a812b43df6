/** Opens or creates the memory database, counts its entries and closes it. Throws if the file cannot be opened. */
import { join } from "node:path";
import { openDatabase } from "./database.ts";
import { createNotes } from "./notes.ts";
import type { NotesCheck, ThreadData } from "./notes-thread.ts";

export function checkNotes({ dir, full_text }: ThreadData): NotesCheck {
  const file = join(dir, "memory.db");
  const database = openDatabase({ file, ...(full_text === undefined ? {} : { full_text }) });
  try {
    return { entries: createNotes(database).count(), full_text: database.full_text };
  } finally {
    database.close();
  }
}
