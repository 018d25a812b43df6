/** The anchor file of the audit log in the home, and the export file configured by `[audit] export`. */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { isAbsolute, join } from "node:path";
import { crc32 } from "node:zlib";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { AnchorMark, AuditAnchor, AuditExport, AuditMark } from "@backplane/ports";
import { replaceContent } from "./replace-content.ts";

export const ANCHOR_FILE = "audit.anchor";

/**
 * The anchor is replaced atomically and not synced: after a power failure it may refer to an older entry, which the log
 * still has. It is never ahead of the log, because an entry is on disk before the anchor is written.
 */
export function openAuditAnchor(home: string): AuditAnchor {
  const name = join(home, ANCHOR_FILE);
  return {
    name,
    read() {
      if (!existsSync(name)) return null;
      try {
        const { sum, ...mark } = JSON.parse(readFileSync(name, "utf8")) as AnchorMark & { sum: number };
        return sum === checksum(mark) ? mark : "damaged";
      } catch {
        return "damaged";
      }
    },
    write(mark) {
      const { seq, hash, at, checked } = mark;
      const plain = { seq, hash, at, checked: { seq: checked.seq, hash: checked.hash } };
      replaceContent(name, `${JSON.stringify({ ...plain, sum: checksum(plain) })}\n`);
    },
  };
}

function checksum(mark: object): number {
  return crc32(JSON.stringify(mark));
}

const TAIL_BYTES = 1024 * 1024;

/** One entry per line. The file is written only by appending, so it can be append-only (`chattr +a`). */
export function openAuditExport(home: string, path: string): AuditExport {
  const name = isAbsolute(path) ? path : join(home, path);
  let last_mark: AuditMark | "damaged" | null | undefined;
  const open = () => {
    try {
      return openSync(name, "a+", 0o600);
    } catch (cause) {
      const fault = diskFault(cause, `the audit export ${name}`);
      if (fault !== null) throw fault;
      throw new BackplaneError("config.invalid", `audit.export: ${name} cannot be opened for appending.`, {
        cause,
        fix: "Specify a file in an existing folder that the gateway may write to.",
      });
    }
  };
  closeSync(open());
  return {
    name,
    last() {
      last_mark ??= readLastMark(name);
      return last_mark;
    },
    append(entries) {
      const fd = open();
      try {
        // A line truncated by a crash is not repaired; its entry is written again on a new line.
        const start = endsWithLine(fd) ? "" : "\n";
        // Unlike writeSync, writeFileSync fails unless everything is written.
        writeFileSync(fd, `${start}${entries.map((entry) => `${JSON.stringify(entry)}\n`).join("")}`);
        fsyncSync(fd);
      } catch (error) {
        // Some of the entries may be in the file; the next append continues after them.
        last_mark = undefined;
        throw diskFault(error, `the audit export ${name}`) ?? error;
      } finally {
        closeSync(fd);
      }
      const { seq, hash } = entries.at(-1)!;
      last_mark = { seq, hash };
    },
  };
}

function endsWithLine(fd: number): boolean {
  const { size } = fstatSync(fd);
  const last = Buffer.alloc(1);
  return size === 0 || (readSync(fd, last, 0, 1, size - 1) === 1 && last[0] === 10);
}

/** The entry on the last complete line, or `damaged` if that is not an entry. Ignores an incomplete line at the end. */
function readLastMark(name: string): AuditMark | "damaged" | null {
  const fd = openSync(name, "r");
  try {
    const { size } = fstatSync(fd);
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(fd, tail, 0, tail.length, size - tail.length);
    const lines = tail.toString("utf8").split("\n");
    lines.pop();
    const line = lines.findLast((text) => text !== "");
    if (line === undefined) return null;
    const { seq, hash } = JSON.parse(line) as AuditMark;
    return typeof seq === "number" && typeof hash === "string" ? { seq, hash } : "damaged";
  } catch {
    return "damaged";
  } finally {
    closeSync(fd);
  }
}
