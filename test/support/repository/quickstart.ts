/**
 * Runs a quickstart of docs/quickstarts the way a reader does: every `sh` block in order, in one shell, with an empty
 * HOME. A `text` block after an `sh` block has lines that its output must contain in this order; `…` stands for any
 * text. Comments, which a reader does not see, describe what else a reader does:
 *
 *   <!-- not run: REASON -->                the next block is not run
 *   <!-- exits with 4 -->                   the next block ends with this exit code
 *   <!-- second terminal -->                the next block runs in the background
 *   <!-- wait for the second terminal: TEXT -->
 *   <!-- output of the second terminal -->  the next block is its output, once it has ended (`…, after Ctrl-C`)
 *   <!-- test: NAME -->                     an action of the test, such as a click
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { eventually } from "../gateway/processes.ts";

export type QuickstartStep = { line: number; heading: string } & (
  | { kind: "run"; script: string; exit: number; expected: string }
  | { kind: "not run"; script: string; reason: string }
  | { kind: "background"; script: string }
  | { kind: "wait"; text: string }
  | { kind: "background output"; interrupt: boolean; expected: string }
  | { kind: "action"; name: string }
);

/** The exit code after Ctrl-C. */
const INTERRUPTED = 130;

/** The tokens of a document that matter here: comments, headings and code blocks. */
const TOKEN = /^<!-- (.*) -->$|^## (.*)$|^```(\w*)\n([\s\S]*?)^```$/gm;

export function parseQuickstart(markdown: string): QuickstartStep[] {
  const steps: QuickstartStep[] = [];
  let heading = "";
  let directive: string | null = null;
  for (const token of markdown.matchAll(TOKEN)) {
    const [, comment, title, language, body = ""] = token;
    const at = { line: markdown.slice(0, token.index).split("\n").length, heading };
    const fail = (why: string): never => {
      throw new Error(`line ${at.line}: ${why}`);
    };
    if (title !== undefined) heading = title;
    else if (comment !== undefined) {
      if (directive !== null) fail(`"${directive}" has no block`);
      const awaited_text = /^wait for the second terminal: (.+)$/.exec(comment)?.[1];
      const action = /^test: (.+)$/.exec(comment)?.[1];
      if (awaited_text !== undefined) steps.push({ ...at, kind: "wait", text: awaited_text });
      else if (action !== undefined) steps.push({ ...at, kind: "action", name: action });
      else directive = comment;
    } else if (language === "sh") {
      const reason = /^not run: (.+)$/.exec(directive ?? "")?.[1];
      const exit = /^exits with (\d+)$/.exec(directive ?? "")?.[1];
      if (reason !== undefined) steps.push({ ...at, kind: "not run", script: body, reason });
      else if (directive === "second terminal") steps.push({ ...at, kind: "background", script: body });
      else if (directive !== null && exit === undefined) fail(`unknown comment "${directive}"`);
      else steps.push({ ...at, kind: "run", script: body, exit: Number(exit ?? 0), expected: "" });
      directive = null;
    } else if (language === "text") {
      const last = steps.at(-1);
      const output = /^output of the second terminal(, after Ctrl-C)?$/.exec(directive ?? "");
      if (output !== null)
        steps.push({ ...at, kind: "background output", interrupt: output[1] !== undefined, expected: body });
      else if (last?.kind === "run" && last.expected === "") last.expected = body;
      else fail("this output belongs to no command");
      directive = null;
    } else if (directive !== null) fail(`"${directive}" has no block`);
  }
  return steps;
}

/** The first expected line that does not follow in the output, or null. Runs of spaces count as one. */
export function findMissingLine(expected: string, output: string): string | null {
  const lines = output.split("\n").map(oneSpace);
  let from = 0;
  for (const line of expected.split("\n").map(oneSpace)) {
    if (line === "") continue;
    const pattern = new RegExp(line.split(/ ?… ?/).map(escapePattern).join(".*"));
    const found = lines.findIndex((each, at) => at >= from && pattern.test(each));
    if (found < 0) return line;
    from = found + 1;
  }
  return null;
}

export interface QuickstartRun {
  /** The seconds that the steps below each heading took. */
  seconds: ReadonlyMap<string, number>;
}

export interface QuickstartOptions {
  file: string;
  /** The folder that becomes HOME. */
  home: string;
  env: NodeJS.ProcessEnv;
  /** Texts of the page and their replacements here, such as the port. */
  replace: Readonly<Record<string, string>>;
  actions?: Readonly<Record<string, () => Promise<void>>>;
}

export async function runQuickstart(options: QuickstartOptions): Promise<QuickstartRun> {
  const { file, home, actions = {} } = options;
  const steps = parseQuickstart(readFileSync(file, "utf8"));
  const localize = (text: string) =>
    Object.entries(options.replace).reduce((result, [from, to]) => result.replaceAll(from, to), text);
  const env = { ...options.env, HOME: home };
  mkdirSync(home, { recursive: true });
  const shell = new TestShell(resolve("."), env, home);
  let second: SecondTerminal | null = null;
  const seconds = new Map<string, number>();
  try {
    for (const step of steps) {
      const started = performance.now();
      const fail = (why: string, output: string): never => {
        throw new Error(`${file}:${step.line}: ${why}\n${output}`);
      };
      if (step.kind === "run") {
        const { exit, output } = await shell.run(localize(step.script));
        if (exit !== step.exit) fail(`exit code ${exit} instead of ${step.exit} in:\n${step.script}`, output);
        const missing = findMissingLine(localize(step.expected), output);
        if (missing !== null) fail(`the output has no line "${missing}"`, output);
      } else if (step.kind === "background")
        second = new SecondTerminal(localize(step.script), shell.cwd, env);
      else if (step.kind === "wait") await second!.waitFor(localize(step.text));
      else if (step.kind === "background output") {
        const { exit, output } = await second!.end(step.interrupt);
        if (exit !== (step.interrupt ? INTERRUPTED : 0))
          fail(`the second terminal ended with ${exit}`, output);
        const missing = findMissingLine(localize(step.expected), output);
        if (missing !== null) fail(`the second terminal has no line "${missing}"`, output);
        second = null;
      } else if (step.kind === "action") {
        const action = actions[step.name] ?? fail(`the test has no action "${step.name}"`, "");
        await action();
      }
      const passed = (performance.now() - started) / 1_000;
      seconds.set(step.heading, (seconds.get(step.heading) ?? 0) + passed);
    }
  } finally {
    second?.kill();
    await shell.run("backplane down --force");
    shell.close();
  }
  return { seconds };
}

/** A bash that keeps its folder and variables between blocks, like a terminal. */
class TestShell {
  cwd: string;
  readonly #bash: ChildProcess;
  readonly #scripts: string;
  #output = "";
  #block = 0;

  constructor(cwd: string, env: NodeJS.ProcessEnv, scripts: string) {
    this.cwd = cwd;
    this.#scripts = scripts;
    this.#bash = spawn("bash", ["--norc", "--noprofile"], { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
    this.#bash.stdout!.setEncoding("utf8").on("data", (chunk) => {
      this.#output += chunk;
    });
    this.#bash.stdin!.write("exec 2>&1\nset -o pipefail\ntrap 'FAILED=$?' ERR\n");
  }

  /** The exit code is that of the last command that failed, or 0. */
  async run(script: string): Promise<{ exit: number; output: string }> {
    const mark = `::end of block ${++this.#block}::`;
    const file = join(this.#scripts, ".quickstart-block.sh");
    writeFileSync(file, script);
    this.#output = "";
    this.#bash.stdin!.write(
      `FAILED=0; . '${file}' < /dev/null; printf '\\n%s %s %s\\n' '${mark}' "$FAILED" "$PWD"\n`,
    );
    const pattern = new RegExp(`\\n${mark} (\\d+) (.*)\\n`);
    await eventually(async () => pattern.test(this.#output) || this.#bash.exitCode !== null, 900_000, script);
    const end = pattern.exec(this.#output);
    if (end === null) throw new Error(`the shell ended in:\n${script}\n${this.#output}`);
    this.cwd = end[2]!;
    return { exit: Number(end[1]), output: this.#output.slice(0, end.index) };
  }

  close(): void {
    this.#bash.stdin!.end();
  }
}

/** One command in another terminal. */
class SecondTerminal {
  readonly #process: ChildProcess;
  readonly #exited: Promise<number>;
  #output = "";

  constructor(script: string, cwd: string, env: NodeJS.ProcessEnv) {
    const PATH = `${resolve("node_modules/.bin")}:${env.PATH}`;
    this.#process = spawn("bash", ["-c", `exec 2>&1; exec ${script}`], {
      cwd,
      env: { ...env, PATH },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#process.stdout!.setEncoding("utf8").on("data", (chunk) => {
      this.#output += chunk;
    });
    this.#exited = new Promise((done) => this.#process.once("close", (code) => done(code ?? -1)));
  }

  async waitFor(text: string): Promise<void> {
    const shown = async () => findMissingLine(text, this.#output) === null;
    await eventually(shown, 120_000, "the line is shown").catch((cause: unknown) => {
      throw new Error(`the second terminal does not show "${text}":\n${this.#output}`, { cause });
    });
  }

  async end(interrupt: boolean): Promise<{ exit: number; output: string }> {
    if (interrupt) this.#process.kill("SIGINT");
    return { exit: await this.#exited, output: this.#output };
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}

function oneSpace(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
