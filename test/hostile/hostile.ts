/**
 * Runs one attack program in a real sandbox and reads its findings. Every program prints one JSON object with `tries`
 * (the number of attempts) and `hits` (what it should not have reached). `weakened` removes one defence of the
 * sandbox, so that a control test can show that the attack works without it.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Sandbox } from "../../packages/runner/src/sandbox/open-sandbox.ts";
import {
  emptyFolder,
  finish,
  packageFolder,
  type Ran,
  type RunChange,
  request,
} from "../../packages/runner/test/support/sandbox.ts";

const PROGRAMS = fileURLToPath(new URL("./programs/", import.meta.url));

interface Findings {
  tries: number;
  hits: string[];
  [more: string]: unknown;
}

export type AttackResult = Ran & { findings: Findings };

/** `name` ends with .py, .mjs or .c; `args` are its arguments. */
export async function attack(
  sandbox: Sandbox,
  name: string,
  args: readonly string[] = [],
  change: RunChange = {},
): Promise<AttackResult> {
  const ran = await finish(await sandbox.launch(await prepare(name, args, change)));
  if (!ran.out.startsWith("{")) throw new Error(`${name} printed nothing: ${JSON.stringify(ran)}`);
  return { ...ran, findings: JSON.parse(ran.out.split("\n")[0]!) as Findings };
}

export async function prepare(name: string, args: readonly string[], change: RunChange = {}) {
  const folder = change.folder ?? (await packageFolder());
  const file = join(folder, name);
  copyFileSync(join(PROGRAMS, name), file);
  chmodSync(file, 0o755);
  return request(folder, { ...change, folder, program: programOf(name, folder, args) });
}

function programOf(name: string, folder: string, args: readonly string[]) {
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

/** Options of a sandbox that compiles sandbox-init with one changed line. */
export function weakenedInit(file: string, from: string, to: string) {
  const folder = emptyFolder();
  const compiler = join(folder, "cc");
  const lines = [
    "#!/usr/bin/python3",
    "import os, sys, tempfile",
    `file, old, new = ${[file, from, to].map((text) => JSON.stringify(text)).join(", ")}`,
    "folder = tempfile.mkdtemp(dir=os.path.dirname(os.path.abspath(__file__)))",
    "args = ['-I' + os.path.dirname(sys.argv[-1])]",
    "for word in sys.argv[1:]:",
    "    if os.path.basename(word) == file:",
    "        text = open(word).read()",
    "        assert text.count(old) == 1, 'the line is missing'",
    "        word = os.path.join(folder, file)",
    "        open(word, 'w').write(text.replace(old, new))",
    "    args.append(word)",
    "os.execv('/usr/bin/cc', ['cc', *args])",
  ];
  writeFileSync(compiler, `${lines.join("\n")}\n`, { mode: 0o755 });
  return { cache_dir: join(folder, "cache"), compilers: [compiler], prebuilt: "/nonexistent" };
}

/** A bwrap with changed arguments: `edit` is Python that changes the list `args`. */
export function weakened(edit: string): string[] {
  const folder = emptyFolder();
  chmodSync(folder, 0o755);
  const file = join(folder, "bwrap");
  const lines = [
    "#!/usr/bin/python3",
    "import os, sys",
    "args = sys.argv[1:]",
    "def drop(flag, values=0):",
    "    while flag in args:",
    "        at = args.index(flag)",
    "        del args[at:at + 1 + values]",
    "if '--' in args:",
    ...edit.split("\n").map((line) => `    ${line}`),
    "os.execv('/usr/bin/bwrap', ['bwrap', *args])",
  ];
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o755 });
  return [file];
}
