/**
 * Folders of this machine whose tool files are used in place. The list of trusted folders is specific to the machine
 * and therefore stored in the home, not in a database that several machines may share.
 */
import type { TrustedFolder, WorkspaceFile, WorkspaceFolder } from "@backplane/contract";

export interface FolderAccess {
  /** Returns the canonical path. Throws `workspace.not_found`. */
  resolve(path: string): Promise<string>;
  /**
   * Lists all files that would be loaded. Throws if the folder cannot be read or contains nothing to load: a workspace
   * needs a tool file; a plugin needs a tool file or another supported format. `tool_files` is true if the tools are
   * the files in `tools`, and false for a plugin in another format.
   */
  survey(
    path: string,
    kind: WorkspaceFolder["kind"],
  ): Promise<{ digest: string; files: WorkspaceFile[]; tool_files: boolean }>;
  /**
   * Reads a file; resolves to null if it does not exist or is not text. Throws workspace.changed if its hash is not
   * `sha256`.
   */
  readText(path: string, file: string, sha256?: string): Promise<string | null>;
  /**
   * Calls `changed` soon after a file changed. Returns a function that stops watching; `changed` is not called after
   * that.
   */
  watch(path: string, kind: WorkspaceFolder["kind"], changed: () => void): () => void;
  readList(): Promise<TrustedFolder[]>;
  /** Replaces the list atomically. */
  writeList(folders: readonly TrustedFolder[]): Promise<void>;
}
