/**
 * Explains a failed launch and what to do about it. The explanation is found by reading files only and never fails;
 * without a better one, the system's error is repeated. Files are named as in the manifest, not by their path in the
 * content store.
 */
import { access, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Interpreters } from "../ports/settings.ts";
import { describeStderr } from "./describe-stderr.ts";
import { type ExecutableFormat, readExecutableFormat } from "./executable-format.ts";
import { type Entrypoint, isExecutableFile } from "./resolve-entrypoint.ts";

export interface HostPaths {
  /** The home folder of the gateway's user, and the gateway's own PATH. */
  home: string;
  path: string;
}

export interface LaunchEnvironment {
  interpreters: Interpreters;
  host_paths: HostPaths;
  machine: { os: string; arch: string };
}

export interface ExitStatus {
  code: number | null;
  signal: string | null;
}

/** Why the entrypoint could not be resolved to a program. */
export async function explainUnresolved(
  entry: Extract<Entrypoint, { found: false }>,
  environment: LaunchEnvironment,
): Promise<string> {
  switch (entry.why) {
    case "no_such_name":
      return `The program ${quote(entry.label)} ${await describeMissing(entry.label, environment)}`;
    case "no_such_file":
      return `The entrypoint ${quote(entry.label)} is not in the package. Check its spelling in vai-plugin.toml and that the build puts it there.`;
    case "folder":
      return `The entrypoint ${quote(entry.label)} is a folder. Name the program inside it in vai-plugin.toml.`;
    case "outside":
      return `The entrypoint ${quote(entry.label)} lies outside the package. Use "node", a bare program name, or a file inside the package.`;
  }
}

/**
 * Why the kernel cannot execute a program of this format; null for a native program, a script, and a file that cannot
 * be read or executed.
 */
export async function explainUnsupportedFormat(
  entry: Extract<Entrypoint, { found: true }>,
  environment: LaunchEnvironment,
): Promise<string | null> {
  const format = await readExecutableFormat(entry.file).catch(() => null);
  // For a file that is unreadable or not executable the system's own error is better. A script is only
  // explained if it does not start.
  if (format === null || format.kind === "script" || !(await isExecutableFile(entry.file))) return null;
  const native =
    (format.kind === "elf" || format.kind === "mach-o") &&
    format.os === environment.machine.os &&
    format.arch.split(" and ").includes(environment.machine.arch);
  return native ? null : await explainFormat(quote(entry.label), format, environment);
}

/** Why the system failed to start this file. */
export async function explainSpawn(
  entry: Extract<Entrypoint, { found: true }>,
  code: string,
  environment: LaunchEnvironment,
): Promise<string> {
  const name = quote(entry.label);
  if (code === "ETXTBSY")
    return `${name} is still open for writing. Wait until it is written completely and try again.`;
  if (code === "E2BIG") return `The arguments and runtime.env of ${name} are too long. Shorten them.`;
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN" || code === "ENOMEM") {
    return `This machine has no room for another process (${code}). Raise its limits or lower limits.processes.`;
  }
  const info = await stat(entry.file).catch(() => null);
  if (info === null) return `The program ${name} does not exist. Check the entrypoint in vai-plugin.toml.`;
  const format = await readExecutableFormat(entry.file).catch(() => null);
  if ((info.mode & 0o111) === 0) {
    const hint = format?.kind === "text" ? " and give it a first line such as #!/bin/sh" : "";
    return `${name} is not executable. Run \`chmod +x\` on it${hint} before you pack the plugin.`;
  }
  const reason = format === null ? null : await explainFormat(name, format, environment);
  return reason ?? `${name} could not be started (${code}). Try starting it manually on this machine.`;
}

/** Marks lines of stdout among those of stderr. */
export const STRAY_PREFIX = "[stdout] ";

/** Why a started process did not complete its handshake: it exited, wrote something else, or sent nothing. */
export async function explainEarlyExit(
  entry: Extract<Entrypoint, { found: true }>,
  options: { exit: ExitStatus | null; stderr: string; stray_output?: string | undefined },
  environment: LaunchEnvironment,
): Promise<string> {
  const command = entry.in_package ? entry.label : [entry.label, ...entry.args.slice(0, 1)].join(" ");
  const stray = options.stray_output?.trim();
  let first = `${quote(command)} ${options.exit === null ? "did not complete its handshake" : describeExit(options.exit)}`;
  if (stray) first += ` after it printed ${quote(clip(stray))} on stdout`;
  const parts = [`${first}.`];
  if (stray) parts.push("Only protocol frames may go to stdout; print everything else to stderr.");
  const hint = await findHint(entry, options, environment);
  if (hint !== null) parts.push(hint);
  const errors = describeStderr(stray ? withoutStray(options.stderr, stray) : options.stderr);
  if (errors !== null) parts.push(errors);
  else if (!stray && hint === null) parts.push("It wrote nothing to stderr; start it manually to see why.");
  return parts.join(" ");
}

/** Stray output is kept with stderr; lines that the message already quotes are not repeated. */
function withoutStray(stderr: string, stray: string): string {
  const quoted = (line: string) =>
    line.startsWith(STRAY_PREFIX) && stray.includes(line.slice(STRAY_PREFIX.length).trim());
  return stderr
    .split("\n")
    .filter((line) => !quoted(line))
    .join("\n");
}

export function describeExit(exit: ExitStatus): string {
  if (exit.signal !== null) return `was killed by ${exit.signal} before it answered`;
  return `exited with code ${exit.code ?? "unknown"} before it answered`;
}

async function explainFormat(
  name: string,
  format: ExecutableFormat,
  environment: LaunchEnvironment,
): Promise<string | null> {
  const { os, arch } = environment.machine;
  switch (format.kind) {
    case "elf":
    case "mach-o":
      if (format.os === os && format.arch.split(" and ").includes(arch)) {
        return `${name} is a program for this machine, but its loader is missing. Link it statically, or install the libraries it was built against.`;
      }
      return `${name} is built for ${format.os} ${format.arch}, but this machine is ${os} ${arch}. Pack a build for ${os} ${arch}, and set runtime.os and runtime.arch to match.`;
    case "pe":
      return `${name} is a Windows program, but this machine is ${os} ${arch}. Pack a build for ${os}.`;
    case "empty":
      return `${name} is an empty file. Build the plugin again.`;
    case "text":
      return `${name} is a text file without an interpreter line. Add a first line such as #!/bin/sh, or name the interpreter in the entrypoint.`;
    case "unknown":
      return `${name} is not a program that this machine can run. Pack a build for ${os} ${arch}.`;
    case "script":
      return await explainScript(name, format, environment);
  }
}

async function explainScript(
  name: string,
  format: Extract<ExecutableFormat, { kind: "script" }>,
  environment: LaunchEnvironment,
): Promise<string | null> {
  if (format.carriage_return) {
    return `The first line of ${name} ends with a carriage return, so the system looks for ${quote(`${basename(format.interpreter)}\\r`)}. Save the file with Unix line endings.`;
  }
  if (await isExecutableFile(format.interpreter)) return null;
  const program = basename(format.interpreter);
  const first = `The first line of ${name} names ${format.interpreter},`;
  const denied = await access(format.interpreter).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === "EACCES",
  );
  if (denied) return `${first} which plugins may not run. Use #!/usr/bin/env ${program}.`;
  for (const folder of environment.interpreters.path) {
    if (await isExecutableFile(`${folder}/${program}`)) {
      return `${first} which does not exist here, but ${folder}/${program} does; use #!/usr/bin/env ${program}.`;
    }
  }
  return `${first} which does not exist here: ${program} ${await describeMissing(program, environment)}`;
}

async function describeMissing(program: string, environment: LaunchEnvironment): Promise<string> {
  const documented = environment.interpreters.path.join(":");
  const elsewhere = await findElsewhere(program, environment.interpreters.path, environment.host_paths);
  if (elsewhere === null) return `is not on ${documented}. Install it there, or add it to the package.`;
  return `is not on ${documented}, the only folders of this machine in which a plugin's program is looked up. It exists at ${elsewhere}, which plugins cannot reach; install it system-wide or link it into /usr/local/bin.`;
}

/**
 * Looks for a program in places that plugins cannot use, only to mention it. The home folder is written as `~`. Null if
 * the program is not found.
 */
async function findElsewhere(
  name: string,
  documented: readonly string[],
  host_paths: HostPaths,
): Promise<string | null> {
  const folders = new Set(host_paths.path.split(":").filter((folder) => folder.startsWith("/")));
  const { home } = host_paths;
  for (const shims of [".pyenv/shims", ".asdf/shims", ".local/bin", ".cargo/bin", ".bun/bin", ".deno/bin"]) {
    folders.add(join(home, shims));
  }
  const nvm = join(home, ".nvm/versions/node");
  for (const version of await readdir(nvm).catch(() => [])) folders.add(join(nvm, version, "bin"));
  for (const folder of ["/opt/homebrew/bin", "/usr/local/sbin", "/snap/bin"]) folders.add(folder);
  for (const folder of folders) {
    if (documented.includes(folder)) continue;
    const file = join(folder, name);
    if (!(await isExecutableFile(file))) continue;
    return home !== "/" && file.startsWith(`${home}/`) ? `~${file.slice(home.length)}` : file;
  }
  return null;
}

/** Returns a hint for a common error message on stderr or for exit code 127; null if there is none. */
async function findHint(
  entry: Extract<Entrypoint, { found: true }>,
  options: { exit: ExitStatus | null; stderr: string },
  environment: LaunchEnvironment,
): Promise<string | null> {
  const { stderr } = options;
  const python = /ModuleNotFoundError: No module named '([^']+)'/.exec(stderr);
  if (python !== null) {
    return `The Python module ${quote(python[1]!)} is not in the package; copy it in (pip install --target).`;
  }
  const node = /Cannot find (?:module|package) '([^']+)'/.exec(stderr);
  if (node !== null) return `The module ${quote(node[1]!)} is not in the package; bundle it before packing.`;
  if (/\/dev\/std(?:err|out): No such device or address/.test(stderr)) {
    return "Its output is a pipe that cannot be opened by name; write >&2 instead of >/dev/stderr.";
  }
  if (/EROFS|Read-only file system/i.test(stderr)) {
    return 'It writes to a read-only folder. In the sandbox only /tmp and $HOME are writable, and only with filesystem = "scratch" in the permissions of the package; other folders need `backplane binding set BINDING --mount FOLDER:TARGET:rw`.';
  }
  if (
    /ENETUNREACH|EAI_AGAIN|ENOTFOUND|Temporary failure in name resolution|Network is unreachable/.test(stderr)
  ) {
    return "A sandboxed process reaches only the hosts that its binding allows: `backplane binding set BINDING --domains HOST`.";
  }
  if (options.exit?.code === 127) {
    const format = entry.in_package ? await readExecutableFormat(entry.file).catch(() => null) : null;
    if (format?.kind === "script" && basename(format.interpreter) === "env" && format.argument !== null) {
      const program = format.argument.replace(/^-S\s+/, "").split(" ")[0]!;
      const advice =
        program === "node"
          ? ' Write entrypoint = ["node", FILE] to use the Node that comes with Backplane.'
          : "";
      return `Its first line asks env for ${quote(program)}, which ${await describeMissing(program, environment)}${advice}`;
    }
    return `A program that it starts is not on ${environment.interpreters.path.join(":")}.`;
  }
  return null;
}

function clip(text: string): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function quote(text: string): string {
  return `"${text}"`;
}
