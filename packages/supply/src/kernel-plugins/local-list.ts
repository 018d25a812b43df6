/** `local.json`: the folders that the operator installed, linked (editable) or copied. */
import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { parseCheckedJson, writeCheckedJson } from "../files/checked-json.ts";

export interface LocalFolder {
  /** Absolute when it is linked, otherwise relative to the plugins folder. */
  path: string;
  editable: boolean;
  /** The source of a copy. */
  from?: string;
}

export interface LocalList {
  folders: LocalFolder[];
  /** Why the file could not be read; null when it could. */
  problem: string | null;
}

const FILE = "local.json";

export async function readLocalList(plugins_dir: string): Promise<LocalList> {
  let text: string;
  try {
    text = await readFile(join(plugins_dir, FILE), "utf8");
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return { folders: [], problem: missing ? null : `it cannot be read (${(error as Error).message})` };
  }
  try {
    const { folders } = parseCheckedJson(text);
    if (Array.isArray(folders) && folders.every(isFolder)) return { folders, problem: null };
  } catch (error) {
    if (!(error instanceof SyntaxError)) return { folders: [], problem: (error as Error).message };
  }
  return { folders: [], problem: `it is not {"folders": [{"path", "editable"}]}; repair or remove it` };
}

export async function writeLocalList(plugins_dir: string, folders: readonly LocalFolder[]): Promise<void> {
  const file = join(plugins_dir, FILE);
  await writeCheckedJson(file, { folders });
}

export function folderPath(plugins_dir: string, { path }: LocalFolder): string {
  return isAbsolute(path) ? path : join(plugins_dir, path);
}

function isFolder(value: unknown): value is LocalFolder {
  const folder = value as { path?: unknown; editable?: unknown; from?: unknown } | null;
  return (
    typeof folder === "object" &&
    typeof folder?.path === "string" &&
    typeof folder.editable === "boolean" &&
    (folder.from === undefined || typeof folder.from === "string")
  );
}
