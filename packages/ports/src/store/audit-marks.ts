/** Where the end of the audit log is noted outside of the database. */
import type { AuditEntry } from "@backplane/contract";

/** An entry and its hash, which covers all entries before it. `seq` 0 is the beginning. */
export interface AuditMark {
  seq: number;
  hash: string;
}

export interface AnchorMark extends AuditMark {
  /** When it was noted. */
  at: number;
  /** How far the log was verified from its beginning. */
  checked: AuditMark;
}

export interface AuditAnchor {
  /** For messages: where it is. */
  name: string;
  /** `damaged`: there is something that cannot be believed. */
  read(): AnchorMark | "damaged" | null;
  write(mark: AnchorMark): void;
}

/** A copy of the log that is only ever added to. */
export interface AuditExport {
  name: string;
  last(): AuditMark | "damaged" | null;
  /** On disk when it returns. */
  append(entries: readonly AuditEntry[]): void;
}
