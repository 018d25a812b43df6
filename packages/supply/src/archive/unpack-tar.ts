/**
 * Unpacks a tar or tar.gz. The guard checks every byte before the parser sees it, and both must find the same entries.
 */
import { pipeline } from "node:stream/promises";
import { codeOf, diskFault } from "@backplane/contract";
import { extract as createExtract, type Extract, type Header } from "tar-stream";
import { createWriteQueue } from "../files/write-queue.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { createNameLedger, safePath } from "./entry-rules.ts";
import { inflate } from "./inflate.ts";
import type { UnpackLimits } from "./limits.ts";
import { createTarGuard, type GuardedEntry } from "./tar-guard.ts";
import { createTreeWriter, type FileScan, type TreeWriter } from "./tree-writer.ts";
import { unsafe } from "./unsafe.ts";

/** Files up to this size are read into memory and written concurrently. */
const SMALL_BYTES = 256 * 1024;

interface ExpectedEntry extends GuardedEntry {
  path: string;
}

export async function unpackTar(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
  scan?: (path: string) => FileScan,
): Promise<TreeFile[]> {
  const expected: ExpectedEntry[] = [];
  const extract = createExtract();
  const writing = writeEntries(extract, createTreeWriter(root, scan), expected);
  const feeding = pipeline(guardBytes(bytes, limits, expected), extract as unknown as NodeJS.WritableStream);
  const [feed_result, write_result] = await Promise.allSettled([feeding, writing]);
  // When one side fails, so does the other; the original error has one of our codes or is a disk error.
  const failures = [feed_result, write_result].flatMap((side) =>
    side.status === "rejected" ? [side.reason as unknown] : [],
  );
  const original = failures.find((failure) => codeOf(failure) !== undefined || diskFault(failure) !== null);
  if (original !== undefined) throw original;
  if (failures.length > 0) throw toRefusal(failures[0]);
  return (write_result as PromiseFulfilledResult<TreeFile[]>).value;
}

async function* guardBytes(
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
  expected: ExpectedEntry[],
): AsyncGenerator<Uint8Array, void> {
  const ledger = createNameLedger();
  const guard = createTarGuard(limits, (entry) => {
    const path = safePath(entry.name, entry.kind === "folder");
    if (path !== "") ledger.add(path, entry.kind);
    expected.push({ ...entry, path });
  });
  for await (const chunk of inflate(bytes, limits)) {
    guard.push(chunk);
    yield chunk;
  }
  guard.end();
}

async function writeEntries(
  extract: Extract,
  writer: TreeWriter,
  expected: ExpectedEntry[],
): Promise<TreeFile[]> {
  const files: TreeFile[] = [];
  const writes = createWriteQueue();
  let index = 0;
  try {
    for await (const entry of extract) {
      const announced = expected[index++];
      checkAgreement(entry.header, announced);
      if (announced.kind === "folder") {
        entry.resume();
        continue;
      }
      await writer.makeParentFolder(announced.path);
      const bytes = entry as unknown as AsyncIterable<Uint8Array>;
      const addFile = (file: TreeFile) => void files.push(file);
      if (announced.size > SMALL_BYTES) addFile(await writer.write(bytes, announced));
      else {
        const content = await collect(bytes);
        await writes.add(() => writer.write([content], announced).then(addFile));
      }
    }
  } finally {
    // Waits even after a failure, because the folder must not be removed before the last write.
    await writes.waitForIdle();
  }
  if (index !== expected.length) {
    throw unsafe("ambiguous", "two parsers disagree about its entries");
  }
  return files;
}

function checkAgreement(
  header: Header,
  announced: ExpectedEntry | undefined,
): asserts announced is ExpectedEntry {
  const kind = header.type === "directory" ? "folder" : header.type;
  if (announced?.name !== header.name || announced.kind !== kind || announced.size !== (header.size ?? 0)) {
    throw unsafe("ambiguous", "two parsers disagree about it", header.name);
  }
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
}

/** A parser error means a bad archive; an error of the disk or of the sender does not. */
function toRefusal(error: unknown): unknown {
  const { code, message = "" } = error as { code?: string; message?: string };
  const is_parser_error = code === undefined && /tar|header|end of data|size|Writable|closed/i.test(message);
  return is_parser_error ? unsafe("garbage", "it cannot be read as a tar archive", undefined, error) : error;
}
