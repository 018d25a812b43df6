/** `workspaces.json` in the home: the folders that the operator trusts. */
import { readFile } from "node:fs/promises";
import { BackplaneError, type TrustedFolder } from "@backplane/contract";
import { TrustedFoldersSchema } from "@backplane/contract/schema";
import { parseCheckedJson, writeCheckedJson } from "../files/checked-json.ts";

export async function readFolderList(file: string): Promise<TrustedFolder[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw unreadable(file, (error as Error).message);
  }
  try {
    return TrustedFoldersSchema.parse(parseCheckedJson(text)).folders;
  } catch (error) {
    throw unreadable(file, (error as Error).message.split("\n")[0] ?? "");
  }
}

export async function writeFolderList(file: string, folders: readonly TrustedFolder[]): Promise<void> {
  await writeCheckedJson(file, { folders });
}

/** An unreadable list is an error and not an empty list, so that no trusted folder is lost. */
function unreadable(file: string, reason: string): BackplaneError {
  return new BackplaneError(
    "config.invalid",
    `The list of trusted folders, ${file}, cannot be read: ${reason}.`,
    {
      fix: `Repair ${file}, or remove it and trust the folders again.`,
    },
  );
}
