/** A SQLite store without rows, which is migrated once for each test process and copied for each test. */
import { cpSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "./memory-folder.ts";

const NAME = "store.db";
let template: Promise<string> | undefined;

/** Copies an empty store to `file`, which must be named store.db in its own folder. */
export async function copyEmptyStore(file: string): Promise<void> {
  template ??= createTemplate();
  cpSync(await template, dirname(file), { recursive: true });
}

async function createTemplate(): Promise<string> {
  const folder = createMemoryFolder("backplane-empty-store-");
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  await (await openSqliteStore({ file: join(folder, NAME), threaded: false })).close();
  return folder;
}
