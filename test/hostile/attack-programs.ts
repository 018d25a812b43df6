/**
 * Runs one attack program in a real sandbox and reads its findings. Each such program prints one JSON object with
 * `tries` (the number of attempts) and `hits` (what it should not have reached). `weakenSandbox` removes one
 * protection of sandbox-init, so that a control test can show that the attack works without it.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Sandbox } from "../../packages/runner/src/sandbox/open-sandbox.ts";
import {
  createEmptyFolder,
  finish,
  type ProcessResult,
  createPackageFolder,
  type RunChange,
  request,
} from "../../packages/runner/test/support/sandbox.ts";
import { buildLocally } from "../../scripts/sandbox-init/manifest.ts";
import { SOURCES, sourceFiles } from "../../scripts/sandbox-init/toolchain.ts";

const PROGRAMS = fileURLToPath(new URL("./programs/", import.meta.url));

interface Findings {
  tries: number;
  hits: string[];
  [more: string]: unknown;
}

export type AttackResult = ProcessResult & { findings: Findings };

/** `name` ends with .py, .mjs or .c; `args` are its arguments. */
export async function attack(
  sandbox: Sandbox,
  name: string,
  args: readonly string[] = [],
  change: RunChange = {},
): Promise<AttackResult> {
  const result = await finish(await sandbox.launch(await prepare(name, args, change)));
  if (!result.out.startsWith("{"))
    throw new Error(`${name} did not print its findings: ${JSON.stringify(result)}`);
  return { ...result, findings: JSON.parse(result.out.split("\n")[0]!) as Findings };
}

export async function prepare(name: string, args: readonly string[], change: RunChange = {}) {
  const folder = change.folder ?? (await createPackageFolder());
  const file = join(folder, name);
  copyFileSync(join(PROGRAMS, name), file);
  chmodSync(file, 0o755);
  return request(folder, { ...change, folder, program: prepareProgram(name, folder, args) });
}

function prepareProgram(name: string, folder: string, args: readonly string[]) {
  const inside = `/plugin/${name}`;
  if (name.endsWith(".py")) {
    return { kind: "system" as const, file: "/usr/bin/python3", args: [inside, ...args] };
  }
  if (name.endsWith(".mjs"))
    return { kind: "node" as const, file: process.execPath, args: [inside, ...args] };
  return { kind: "package" as const, file: compile(name, join(folder, "attack"), ["-static"]), args };
}

export function compile(name: string, target: string, flags: readonly string[]): string {
  execFileSync("/usr/bin/cc", [...flags, "-O1", "-o", target, join(PROGRAMS, name)]);
  return target;
}

/** A change to sandbox-init: a string that occurs once in one of its sources, and its replacement. */
export type Change = [file: string, from: string, to: string];

/** Builds sandbox-init with a few changed lines and returns the options of a sandbox that uses it. */
export function weakenSandbox(...changes: Change[]): { init: string } {
  const folder = createEmptyFolder();
  for (const name of sourceFiles()) copyFileSync(join(SOURCES, name), join(folder, name));
  for (const [file, from, to] of changes) {
    const source = readFileSync(join(folder, file), "utf8");
    if (source.split(from).length !== 2) throw new Error(`${file} must contain exactly once: ${from}`);
    writeFileSync(
      join(folder, file),
      source.replace(from, () => to),
    );
  }
  const init = join(folder, "prebuilt");
  buildLocally(init, folder, join(tmpdir(), "sandbox-init-objects"));
  return { init };
}
