/**
 * Reads the tar stream before the parser does and refuses what a package never needs: links, devices, global or
 * oversized extended headers, sparse files, a second size in an extended header, hidden data after the end. The guard
 * also announces each entry, so that two independent readers of the same bytes have to agree.
 *
 * States: header → (extended → header) | body → header … → tail (zeros only).
 */
import type { UnpackLimits } from "./limits.ts";
import { BLOCK, isZero, readHeader, readLongName, readPax, type TarHeader } from "./tar-header.ts";
import { unsafe } from "./unsafe.ts";

const MAX_EXTENDED_BYTES = 16 * 1024;

export interface GuardedEntry {
  name: string;
  kind: "file" | "folder";
  size: number;
  executable: boolean;
}

export interface TarGuard {
  /** Checks the next bytes. Throws `package.unsafe`. */
  push(chunk: Uint8Array): void;
  /** Throws `package.unsafe` if the archive is empty or incomplete. */
  end(): void;
}

const REFUSED_TYPES: Record<string, [rule: string, message: string]> = {
  "1": ["hard-link", "it is a hard link"],
  "2": ["symlink", "it is a symbolic link"],
  "3": ["device", "it is a character device"],
  "4": ["device", "it is a block device"],
  "6": ["fifo", "it is a named pipe"],
  g: ["global-header", "it is a global extended header"],
  K: ["hard-link", "it is a link with a long target"],
  S: ["sparse", "it is a sparse file"],
};

export function createTarGuard(limits: UnpackLimits, announce: (entry: GuardedEntry) => void): TarGuard {
  let state: "header" | "extended" | "body" | "tail" = "header";
  let pending: Buffer = Buffer.alloc(0);
  let remaining = 0;
  let extended: { type: "x" | "L"; size: number } | null = null;
  /** True between an extended header and the header of its entry. */
  let has_extended_header = false;
  let long_name: string | null = null;
  let entries = 0;
  let total = 0;
  let file_bytes = 0;
  let zero_bytes = 0;

  const onHeader = (block: Buffer) => {
    if (isZero(block)) {
      if (has_extended_header) throw unsafe("truncated", "it ends after an extended header");
      zero_bytes = BLOCK;
      state = "tail";
      return;
    }
    const header = readHeader(block);
    const name = long_name ?? header.name;
    if (header.type === "x" || header.type === "L") {
      if (has_extended_header) throw unsafe("extended-header", "it has two extended headers", name);
      if (header.size > MAX_EXTENDED_BYTES) {
        throw unsafe(
          "extended-header",
          `its extended header is larger than ${MAX_EXTENDED_BYTES} bytes`,
          name,
        );
      }
      extended = { type: header.type, size: header.size };
      remaining = padded(header.size);
      state = "extended";
      return;
    }
    long_name = null;
    has_extended_header = false;
    if (++entries > limits.entries)
      throw unsafe("too-many-entries", `it has more than ${limits.entries} entries`);
    const entry = checkEntry(header, name, limits);
    file_bytes += entry.size;
    if (file_bytes > limits.unpacked_bytes) {
      throw unsafe("too-large", `its files have more than ${limits.unpacked_bytes} bytes in total`, name);
    }
    announce(entry);
    remaining = padded(entry.size);
    if (remaining > 0) state = "body";
  };

  const onExtended = (body: Buffer) => {
    const { type, size } = extended as { type: "x" | "L"; size: number };
    const content = body.subarray(0, size);
    long_name = type === "L" ? readLongName(content) : readPax(content);
    has_extended_header = true;
    state = "header";
  };

  return {
    push(chunk) {
      total += chunk.byteLength;
      if (total > limits.unpacked_bytes) {
        throw unsafe("too-large", `it unpacks to more than ${limits.unpacked_bytes} bytes`);
      }
      let rest: Buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      while (rest.length > 0) {
        if (state === "tail") {
          if (!isZero(rest)) throw unsafe("data-after-end", "it has data after its end");
          zero_bytes += rest.length;
          return;
        }
        if (state === "body") {
          const skipped = Math.min(remaining, rest.length);
          remaining -= skipped;
          rest = rest.subarray(skipped);
          if (remaining === 0) state = "header";
          continue;
        }
        const missing = (state === "header" ? BLOCK : remaining) - pending.length;
        pending =
          pending.length === 0
            ? rest.subarray(0, missing)
            : Buffer.concat([pending, rest.subarray(0, missing)]);
        rest = rest.subarray(Math.min(missing, rest.length));
        if (pending.length < (state === "header" ? BLOCK : remaining)) {
          pending = Buffer.from(pending);
          return;
        }
        const complete = pending;
        pending = Buffer.alloc(0);
        if (state === "header") onHeader(complete);
        else onExtended(complete);
      }
    },
    end() {
      if (total === 0) throw unsafe("empty", "it is empty");
      if (state !== "tail" || zero_bytes < 2 * BLOCK || total % BLOCK !== 0) {
        throw unsafe("truncated", "it is truncated");
      }
    },
  };
}

function checkEntry(header: TarHeader, name: string, limits: UnpackLimits): GuardedEntry {
  const refused = REFUSED_TYPES[header.type];
  if (refused !== undefined) throw unsafe(refused[0], refused[1], name);
  if (header.type !== "0" && header.type !== "5") {
    throw unsafe("entry-type", `it is of the unknown type ${JSON.stringify(header.type)}`, name);
  }
  const special = header.mode & 0o7000;
  if (special !== 0) throw unsafe("special-mode", "it has a setuid, setgid or sticky bit", name);
  if (header.size > limits.file_bytes) {
    throw unsafe("file-too-large", `it is larger than ${limits.file_bytes} bytes`, name);
  }
  const kind = header.type === "5" ? "folder" : "file";
  if (kind === "folder" && header.size !== 0)
    throw unsafe("folder-with-data", "it is a folder with data", name);
  return { name, kind, size: header.size, executable: (header.mode & 0o111) !== 0 };
}

function padded(size: number): number {
  return Math.ceil(size / BLOCK) * BLOCK;
}
