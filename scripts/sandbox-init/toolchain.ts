/**
 * Compiles sandbox-init. The shipped programs are built with one exact toolchain, so that everyone who uses it gets the
 * same bytes: Debian's gcc, native or as a cross compiler, with Debian's musl. Tests that change a line of the
 * sources use any compiler on this machine.
 */
import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join, resolve } from "node:path";

export const SOURCES = resolve(import.meta.dirname, "../../packages/runner/sandbox-init");

export type Arch = "x64" | "arm64";

interface Toolchain {
  compiler: string;
  linker: string;
  /** The folder of the static C library. */
  musl: string;
  /** The name of the Debian package of musl, with its architecture. */
  package: string;
}

export const TOOLCHAINS: Record<Arch, Toolchain> = {
  x64: {
    compiler: "/usr/bin/x86_64-linux-gnu-gcc",
    linker: "/usr/bin/x86_64-linux-gnu-ld",
    musl: "/usr/lib/x86_64-linux-musl",
    package: "musl-dev:amd64",
  },
  arm64: {
    compiler: "/usr/bin/aarch64-linux-gnu-gcc",
    linker: "/usr/bin/aarch64-linux-gnu-ld",
    musl: "/usr/lib/aarch64-linux-musl",
    package: "musl-dev:arm64",
  },
};

/** The program is static, because it cannot rely on any library of the host inside a sandbox. */
const FLAGS = ["-std=gnu17", "-static", "-O2", "-s"];
/** These flags also keep the compiler's name and the build id out of the program, and drop unused code. */
export const SHIPPED_FLAGS = [
  ...FLAGS,
  "-Wall",
  "-Wextra",
  "-Werror",
  "-fno-ident",
  "-fno-asynchronous-unwind-tables",
  "-ffunction-sections",
  "-fdata-sections",
  "-Wl,--gc-sections",
  "-Wl,--build-id=none",
];

/**
 * musl-gcc comes first, because glibc is slower: it runs dozens of CPUID instructions before main, and each of them
 * traps to the hypervisor in a virtual machine.
 */
const LOCAL_COMPILERS = ["/usr/bin/musl-gcc", "/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"];
/** musl does not include the kernel headers. Other compilers find their own first. */
const KERNEL_HEADERS: Record<Arch, string[]> = {
  x64: ["/usr/include", "/usr/include/x86_64-linux-gnu"],
  arm64: ["/usr/aarch64-linux-gnu/include", "/usr/include", "/usr/include/aarch64-linux-gnu"],
};

export function sourceFiles(folder: string = SOURCES): string[] {
  return readdirSync(folder)
    .filter((name) => /\.[ch]$/.test(name))
    .sort();
}

/** The checksum of each source, which the manifest records. */
export function sourceDigests(folder: string = SOURCES): Record<string, string> {
  return Object.fromEntries(
    sourceFiles(folder).map((name) => [name, hash("sha256", readFileSync(join(folder, name)), "hex")]),
  );
}

/** The versions that determine the bytes of the program, or null if the toolchain is not installed. */
export function toolchainVersions(arch: Arch): Record<string, string> | null {
  const { compiler, linker, musl, package: name } = TOOLCHAINS[arch];
  if (![compiler, linker, join(musl, "libc.a")].every((file) => existsSync(file))) return null;
  const firstLine = (program: string, ...args: string[]) =>
    execFileSync(program, args, { encoding: "utf8" }).split("\n", 1)[0]!;
  return {
    compiler: firstLine(compiler, "--version"),
    linker: firstLine(linker, "--version"),
    // `NAME<tab>VERSION`
    musl: firstLine("/usr/bin/dpkg-query", "--show", name).split("\t")[1]!,
  };
}

/** Compiles one program with the exact toolchain. Throws if the toolchain is missing or a source has an error. */
export function compileShipped(arch: Arch, target: string, folder: string = SOURCES): void {
  const { compiler, musl } = TOOLCHAINS[arch];
  const specs = `-specs=${musl}/musl-gcc.specs`;
  const args = [specs, ...SHIPPED_FLAGS, ...headerFlags(arch), "-o", target, ...programFiles(folder)];
  runCompiler(compiler, args, folder);
}

/**
 * Compiles a program for this machine with any compiler. Its bytes differ from those of the shipped one. Each object is
 * kept in `objects` under the checksum of its sources, so that a change to one file compiles only that file.
 */
export function compileLocally(target: string, folder: string, objects: string): void {
  const compiler = LOCAL_COMPILERS.find((file) => existsSync(file));
  if (compiler === undefined)
    throw new Error("No C compiler was found. Run: apt-get install -y gcc libc6-dev");
  mkdirSync(objects, { recursive: true });
  const digests = sourceDigests(folder);
  const headers = Object.entries(digests).filter(([name]) => name.endsWith(".h"));
  const compiled = programFiles(folder).map((name) => {
    const object = join(objects, `${hash("sha256", JSON.stringify([digests[name], headers]), "hex")}.o`);
    if (!existsSync(object)) {
      const draft = `${object}.${process.pid}`;
      runCompiler(
        compiler,
        [...FLAGS, ...headerFlags(process.arch as Arch), "-c", "-o", draft, name],
        folder,
      );
      renameSync(draft, object);
    }
    return object;
  });
  runCompiler(compiler, [...FLAGS, "-o", target, ...compiled], folder);
}

/** The names are relative, so that the program contains no path of this machine. */
function programFiles(folder: string): string[] {
  return sourceFiles(folder).filter((name) => name.endsWith(".c"));
}

function headerFlags(arch: Arch): string[] {
  return KERNEL_HEADERS[arch].flatMap((folder) => ["-idirafter", folder]);
}

function runCompiler(compiler: string, args: string[], folder: string): void {
  execFileSync(compiler, args, {
    cwd: folder,
    env: { PATH: "/usr/bin:/bin", LC_ALL: "C", SOURCE_DATE_EPOCH: "0" },
    stdio: ["ignore", "ignore", "pipe"],
  });
}
