/** Records of the end of the audit log outside the database. */
import type { AuditEntry } from "@backplane/contract";

/** An entry and its hash, which covers all earlier entries. `seq` 0 is the beginning of the log. */
export interface AuditMark {
  seq: number;
  hash: string;
}

export interface AnchorMark extends AuditMark {
  /** When the mark was written. */
  at: number;
  /** The end of the verified part of the log. */
  checked: AuditMark;
}

export interface AuditAnchor {
  /** The location of the anchor, for messages. */
  name: string;
  /** Returns `damaged` if the anchor exists but is not valid. */
  read(): AnchorMark | "damaged" | null;
  write(mark: AnchorMark): void;
}

/** An append-only copy of the log. */
export interface AuditExport {
  name: string;
  last(): AuditMark | "damaged" | null;
  /** Returns after the entries are on disk. */
  append(entries: readonly AuditEntry[]): void;
}
