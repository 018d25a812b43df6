/**
 * Private copies of our files that are executed or shown to plugins: sandbox-init, the system-call filter, host
 * programs. The contents are read once and kept in memory. A copy is checked before and after each use and
 * rewritten if another process changed it.
 */
import { randomBytes } from "node:crypto";
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";

interface OwnFile {
  bytes: Buffer;
  mode: number;
  fingerprint: string;
  written_at: number;
  /** The contents were compared once more after the file timestamp clock had ticked. */
  settled: boolean;
}

/** Some kernels update file timestamps only every 4 to 10 ms. */
const TICK_MS = 20;
const FOLDER = /^own-(\d+)-[0-9a-f]+$/;

export class PrivateCopies {
  readonly #parent: string;
  readonly #folder: string;
  readonly #files = new Map<string, OwnFile>();
  readonly #copies = new Map<string, string>();
  readonly #open: number[] = [];

  /** A folder below `parent` is created for the first file, and the folders of exited processes are then removed. */
  constructor(parent: string) {
    this.#parent = parent;
    this.#folder = join(parent, `own-${process.pid}-${randomBytes(16).toString("hex")}`);
  }

  /** Returns the path of a file with these contents. A name must always have the same contents. */
  put(name: string, bytes: Buffer, mode = 0o444): string {
    if (this.#files.size === 0) this.#makeFolder();
    const path = join(this.#folder, name);
    if (!this.#files.has(path)) this.#files.set(path, write(path, bytes, mode));
    return path;
  }

  /** Returns the path of a private copy of this file, as it was at the first call. */
  ensureCopy(file: string): string {
    let path = this.#copies.get(file);
    if (path === undefined) {
      path = this.put(`${this.#copies.size}-${basename(file)}`, readFileSync(file));
      this.#copies.set(file, path);
    }
    this.verify([path]);
    return path;
  }

  /**
   * Returns a descriptor of an unnamed file with these contents, for processes that read the file later. Nobody can
   * open it for writing.
   */
  openUnnamed(bytes: Buffer): number {
    if (this.#files.size === 0) this.#makeFolder();
    const path = join(this.#folder, `unnamed-${this.#open.length}`);
    writeFileSync(path, bytes, { mode: 0o400, flag: "wx" });
    const fd = openSync(path, "r");
    this.#open.push(fd);
    rmSync(path);
    if (!readFileSync(`/proc/self/fd/${fd}`).equals(bytes)) throw new Error(`${path} was changed`);
    return fd;
  }

  /** False if a file was changed; it is restored. Unknown paths are ignored. */
  verify(paths: Iterable<string> = this.#files.keys()): boolean {
    let intact = true;
    for (const path of paths) {
      const file = this.#files.get(path);
      if (file === undefined || isIntact(path, file)) continue;
      intact = false;
      this.#files.set(path, write(path, file.bytes, file.mode));
    }
    return intact;
  }

  close(): void {
    for (const fd of this.#open.splice(0)) closeSync(fd);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #makeFolder(): void {
    mkdirSync(this.#parent, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.#parent)) {
      const pid = FOLDER.exec(name)?.[1];
      if (pid === undefined || isAlive(Number(pid))) continue;
      rmSync(join(this.#parent, name), { recursive: true, force: true });
    }
    mkdirSync(this.#folder, { mode: 0o700 });
  }
}

/** Written under another name first: a running program cannot be overwritten, but its name can be reused. */
function write(path: string, bytes: Buffer, mode: number): OwnFile {
  const draft = `${path}.${randomBytes(4).toString("hex")}`;
  writeFileSync(draft, bytes, { mode: 0o600, flag: "wx" });
  // Independent of the umask, because a sandbox shows the file to another user.
  chmodSync(draft, mode);
  renameSync(draft, path);
  return { bytes, mode, fingerprint: readFingerprint(path), written_at: performance.now(), settled: false };
}

function isIntact(path: string, file: OwnFile): boolean {
  if (readFingerprint(path) !== file.fingerprint) return false;
  if (file.settled) return true;
  const settled = performance.now() - file.written_at > TICK_MS;
  if (!readFileSync(path).equals(file.bytes)) return false;
  file.settled = settled;
  return true;
}

function readFingerprint(path: string): string {
  const info: BigIntStats | undefined = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (info === undefined) return "missing";
  const { ctimeNs, dev, ino, mode, mtimeNs, size } = info;
  return `${dev} ${ino} ${mode} ${size} ${mtimeNs} ${ctimeNs}`;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
