/**
 * Folders of this machine whose tool files are used as they lie there. The list of trusted ones is this machine's too,
 * so it is kept beside the home's other files and not in a database that several machines may share.
 */
import type { TrustedFolder, WorkspaceFile, WorkspaceFolder } from "@backplane/contract";

export interface WorkspaceFolders {
  /** The path as the machine itself spells it. Throws `workspace.not_found`. */
  resolve(path: string): Promise<string>;
  /** Every file that would be loaded. Throws when the folder cannot be read or holds no tool file. */
  survey(path: string, kind: WorkspaceFolder["kind"]): Promise<{ digest: string; files: WorkspaceFile[] }>;
  /**
   * The text of one of its files; null when it is gone or no text. Throws workspace.changed where it is not the one
   * that was surveyed.
   */
  text(path: string, file: string, sha256?: string): Promise<string | null>;
  /** Calls back soon after any of these files changed; nothing is called after the returned function. */
  watch(path: string, kind: WorkspaceFolder["kind"], changed: () => void): () => void;
  read(): Promise<TrustedFolder[]>;
  /** Whole, or not at all. */
  write(folders: readonly TrustedFolder[]): Promise<void>;
}
