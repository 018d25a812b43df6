/**
 * Unpacks a stranger's archive (pkg.unpack-safe): tar, tar.gz, zip or jar, told apart by the first bytes. Everything
 * is written into a temporary folder beside the target and renamed at the end: a refused archive leaves no partial
 * tree. Only plain files come out, mode 0644 or 0755.
 */
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { codeOf } from "@backplane/contract";
import { extract as createExtract, type Extract, type Header } from "tar-stream";
import { sweepStale, temporaryName } from "../files/temporary-folders.ts";
import { listTree, type TreeFile, type TreeListing } from "../tree/tree-listing.ts";
import { createNameLedger, safePath } from "./entry-rules.ts";
import { after, inflate, readHead } from "./inflate.ts";
import { UNPACK_LIMITS, type UnpackLimits } from "./limits.ts";
import { createTarGuard, type GuardedEntry } from "./tar-guard.ts";
import { createTreeWriter } from "./tree-writer.ts";
import { unpackZip } from "./unpack-zip.ts";
import { unsafe } from "./unsafe.ts";

const PREFIX = ".unpack-";
const AT_ONCE = 8;
const SMALL_BYTES = 256 * 1024;
/** An empty one begins with its end. */
const ZIPS = ["PK\x03\x04", "PK\x05\x06"];

interface ExpectedEntry extends GuardedEntry {
  path: string;
}

export async function unpackArchive(
  bytes: AsyncIterable<Uint8Array>,
  into: string,
  limits: UnpackLimits = UNPACK_LIMITS,
): Promise<TreeListing> {
  const beside = dirname(into);
  sweepStale(beside, PREFIX);
  await mkdir(beside, { recursive: true });
  const temporary = join(beside, temporaryName(PREFIX));
  await mkdir(temporary, { mode: 0o755 });
  try {
    const listing = listTree(await unpackAny(temporary, bytes, limits));
    await rename(temporary, into);
    return listing;
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

async function unpackAny(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
): Promise<TreeFile[]> {
  const iterator = bytes[Symbol.asyncIterator]();
  let finished = false;
  try {
    const head = await readHead(iterator, 4);
    const whole = after(head, iterator);
    const isZip = ZIPS.includes(Buffer.from(head.subarray(0, 4)).toString("latin1"));
    const files = isZip ? await unpackSpooled(root, whole, limits) : await unpackTar(root, whole, limits);
    finished = true;
    return files;
  } finally {
    if (!finished) await iterator.return?.();
  }
}

/** A zip is read from its end, so it must be whole first; it lies beside the folder, not in it. */
async function unpackSpooled(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
): Promise<TreeFile[]> {
  const spool = join(dirname(root), temporaryName(PREFIX));
  const handle = await open(spool, "wx+", 0o600);
  try {
    let length = 0;
    for await (const chunk of bytes) {
      length += chunk.length;
      if (length > limits.unpacked_bytes) {
        throw unsafe("too-large", `it is larger than ${limits.unpacked_bytes} bytes`);
      }
      await handle.writeFile(chunk);
    }
    return await unpackZip(handle, root, limits);
  } finally {
    await handle.close();
    await rm(spool, { force: true });
  }
}

async function unpackTar(
  root: string,
  bytes: AsyncIterable<Uint8Array>,
  limits: UnpackLimits,
): Promise<TreeFile[]> {
  const expected: ExpectedEntry[] = [];
  const extract = createExtract();
  const written = writeEntries(extract, root, expected);
  const fed = pipeline(guarded(bytes, limits, expected), extract as unknown as NodeJS.WritableStream);
  const [reading, writing] = await Promise.allSettled([fed, written]);
  // Either side fails when the other does; the one that knows why carries a code.
  const failures = [reading, writing].flatMap((side) =>
    side.status === "rejected" ? [side.reason as unknown] : [],
  );
  const told = failures.find((failure) => codeOf(failure) !== undefined);
  if (told !== undefined) throw told;
  if (failures.length > 0) throw asRefusal(failures[0]);
  return (writing as PromiseFulfilledResult<TreeFile[]>).value;
}

async function* guarded(
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

async function writeEntries(extract: Extract, root: string, expected: ExpectedEntry[]): Promise<TreeFile[]> {
  const files: TreeFile[] = [];
  const writer = createTreeWriter(root);
  const lanes = createLanes();
  let index = 0;
  try {
    for await (const entry of extract) {
      const told = expected[index++];
      checkAgreement(entry.header, told);
      if (told.kind === "folder") {
        entry.resume();
        continue;
      }
      await writer.makeFolderOf(told.path);
      const bytes = entry as unknown as AsyncIterable<Uint8Array>;
      const keep = (file: TreeFile) => void files.push(file);
      if (told.size > SMALL_BYTES) keep(await writer.write(bytes, told));
      else {
        const whole = await collect(bytes);
        await lanes.add(() => writer.write([whole], told).then(keep));
      }
    }
  } finally {
    // Also after a failure: the folder is removed only when nobody writes into it any more.
    await lanes.idle();
  }
  if (index !== expected.length) {
    throw unsafe("ambiguous", "two readers of the archive disagree about its entries");
  }
  return files;
}

function checkAgreement(header: Header, told: ExpectedEntry | undefined): asserts told is ExpectedEntry {
  const kind = header.type === "directory" ? "folder" : header.type;
  if (told?.name !== header.name || told.kind !== kind || told.size !== (header.size ?? 0)) {
    throw unsafe("ambiguous", "two readers of the archive disagree about it", header.name);
  }
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
}

/** A few small files are written at a time; a failure shows at the next `add` or at the end. */
function createLanes() {
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const check = () => {
    if (failures.length > 0) throw failures[0];
  };
  return {
    async add(work: () => Promise<void>): Promise<void> {
      while (running.size >= AT_ONCE) await Promise.race(running);
      check();
      const task: Promise<void> = work()
        .catch((error: unknown) => void failures.push(error))
        .finally(() => running.delete(task));
      running.add(task);
    },
    async idle(): Promise<void> {
      await Promise.all(running);
      check();
    },
  };
}

/** The parser's own complaints are about the archive; the disk's and the sender's are not. */
function asRefusal(error: unknown): unknown {
  const { code, message = "" } = error as { code?: string; message?: string };
  const isParser = code === undefined && /tar|header|end of data|size|Writable|closed/i.test(message);
  return isParser ? unsafe("garbage", "it cannot be read as a tar archive", undefined, error) : error;
}
