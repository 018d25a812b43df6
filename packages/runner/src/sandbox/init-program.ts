/**
 * The compiled sandbox-init: taken from the build of this package or from the cache, else built from its C sources.
 * Its name holds the digest of the sources, and it is checked against its recorded checksum before each use.
 */
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";

const MACHINES: Partial<Record<string, string>> = { x64: "x86_64", arm64: "aarch64" };
const SOURCES = fileURLToPath(new URL("../../sandbox-init/", import.meta.url));
/** `npm run build` compiles into this folder where a compiler exists, so that no new home has to compile again. */
export const PREBUILT = fileURLToPath(new URL("../../dist/sandbox-init/", import.meta.url));
/** Static, because a sandbox contains no library of the host that it could rely on. */
const FLAGS = ["-static", "-O2", "-s", "-Wall", "-Wextra"];
/**
 * musl is preferred: its programs start in a tenth of the time, because glibc runs dozens of CPUID instructions
 * before main, and each of them traps in a virtual machine. sandbox-init starts twice per process.
 */
export const COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
/** musl does not include the kernel headers. Other compilers find their own first. */
const KERNEL_HEADERS = ["/usr/include", `/usr/include/${MACHINES[process.arch] ?? process.arch}-linux-gnu`];
const BUILD_MS = 60_000;

export interface InitProgram {
  file: string;
  sha256: string;
  /** The contents with this checksum, whatever happens to the file. */
  bytes: Buffer;
}

export async function findOrBuildInit(
  cache: string,
  compilers: readonly string[] = COMPILERS,
  prebuilt: string = PREBUILT,
): Promise<InitProgram> {
  const sources = (await readdir(SOURCES)).filter((name) => /\.[ch]$/.test(name)).sort();
  const hash = createHash("sha256").update(`${process.arch} ${FLAGS.join(" ")}\n`);
  for (const name of sources) hash.update(`${name}\n`).update(await readFile(join(SOURCES, name)));
  const name = `sandbox-init-${hash.digest("hex").slice(0, 32)}`;
  for (const folder of [prebuilt, cache]) {
    const found = await readIntact(join(folder, name));
    if (found !== null) return found;
  }
  return await build(join(cache, name), cache, sources, compilers);
}

/** Resolves to null if the program is missing or does not have its recorded checksum. */
async function readIntact(file: string): Promise<InitProgram | null> {
  const known = await readFile(`${file}.sha256`, "utf8").catch(() => null);
  const bytes = known === null ? null : await readFile(file).catch(() => null);
  if (bytes === null || known !== checksum(bytes)) return null;
  return { file, sha256: known, bytes };
}

/** Built under a unique name first: two gateways may build at the same time, and one may be killed. */
async function build(
  file: string,
  cache: string,
  sources: readonly string[],
  compilers: readonly string[],
): Promise<InitProgram> {
  await mkdir(cache, { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomUUID()}`;
  try {
    await compile(draft, sources, compilers);
    await chmod(draft, 0o555);
    const bytes = await readFile(draft);
    const sha256 = checksum(bytes);
    await writeFile(`${draft}.sha256`, sha256, { mode: 0o400 });
    await rename(draft, file);
    await rename(`${draft}.sha256`, `${file}.sha256`);
    return { file, sha256, bytes };
  } finally {
    await rm(draft, { force: true });
    await rm(`${draft}.sha256`, { force: true });
  }
}

async function compile(
  target: string,
  sources: readonly string[],
  compilers: readonly string[],
): Promise<void> {
  const files = sources.filter((name) => name.endsWith(".c")).map((name) => join(SOURCES, name));
  const headers = KERNEL_HEADERS.flatMap((folder) => ["-idirafter", folder]);
  let words: string | null = null;
  for (const compiler of compilers) {
    const failed = await runCompiler(compiler, [...FLAGS, ...headers, "-o", target, ...files]);
    if (failed === null) return;
    if (!failed.sandboxError) words = failed.words;
  }
  if (words !== null) {
    throw new BackplaneError("sandbox.unavailable", `sandbox-init cannot be compiled: ${words}`, {
      fix: "Install a C compiler with a static C library: apt-get install -y gcc libc6-dev",
    });
  }
  throw new BackplaneError(
    "sandbox.unavailable",
    `sandbox-init must be compiled once, and no C compiler was found (${compilers.join(", ")}).`,
    { fix: "Install one and start the gateway again: apt-get install -y gcc libc6-dev" },
  );
}

function runCompiler(
  compiler: string,
  args: readonly string[],
): Promise<{ sandboxError: boolean; words: string } | null> {
  const options = { timeout: BUILD_MS, env: { PATH: "/usr/bin:/bin" }, cwd: "/" };
  return new Promise((resolve) => {
    execFile(compiler, args, options, (error, _stdout, stderr) => {
      if (error === null) resolve(null);
      else {
        const words = stderr.trim().split("\n").slice(-1)[0] || error.message;
        resolve({ sandboxError: error.code === "ENOENT", words: words.slice(0, 300) });
      }
    });
  });
}

function checksum(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
