/**
 * Describes every tool file without letting one affect another (tools.isolated-failure). Files are imported
 * one after another in a child process. A file that throws, terminates the child or hangs is set aside, and the
 * remaining files are imported, in a new child if necessary. Afterwards each file that was set aside is tried alone, so
 * that a failure is never caused by another file; after a hang, the files that were not imported yet are tried alone as
 * well. Two failures are final immediately: a hang, which has already used its time, and that of the very first file,
 * before which no other file was imported. Author code never runs in this process.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { ToolFileDescription } from "@backplane/contract";
import { REPORT_FD, type ReportLine } from "./report-files.ts";
import { createDefaultDescription } from "./tool-definition.ts";

export interface DescribeOptions {
  /** The command that runs `reportFiles`; the file names are appended. */
  command: readonly string[];
  import_ms: number;
  /** Once this time has passed, no further file is tried alone. */
  total_ms: number;
}

/**
 * The number of concurrent children: each is a separate Node process, and the sandbox limits their total
 * memory.
 */
const MAX_CHILDREN = 4;

interface Batch {
  described: Map<string, ToolFileDescription>;
  /** The reason why a file could not be imported. */
  failed: Map<string, string>;
  hung: string | null;
}

const ENDLESS = "its import does not finish; a tool file must not wait at its top level";
/** Node's exit code for a top-level await that can never settle. */
const NEVER_SETTLED = 13;
const MAX_OUTPUT_CHARS = 2_000;
/** Bounds the wait for a grandchild that holds the pipes of a child that has exited. */
const PIPE_WAIT_MS = 200;

export async function describeFiles(
  files: readonly string[],
  options: DescribeOptions,
): Promise<ToolFileDescription[]> {
  const end = Date.now() + options.total_ms;
  const described = new Map<string, ToolFileDescription>();
  const suspects: string[] = [];
  let waiting = [...files];
  let hung = false;
  while (waiting.length > 0 && !hung) {
    const batch = await importInChild(waiting, options);
    for (const [file, description] of batch.described) described.set(file, description);
    for (const [file, error] of batch.failed) {
      described.set(file, describeBroken(file, error));
      if (file !== batch.hung) suspects.push(file);
    }
    waiting = waiting.filter((file) => !described.has(file));
    hung = batch.hung !== null;
  }
  // No file was imported before the first one, so its failure is its own. After a hang, no file is queued
  // behind another that may hang too.
  const alone = [...suspects.filter((file) => file !== files[0]), ...waiting];
  await describeConcurrently(alone, async (file) => {
    const import_ms = Math.min(options.import_ms, end - Date.now());
    const batch = import_ms > 0 ? await importInChild([file], { ...options, import_ms }) : null;
    const error = batch?.failed.get(file) ?? "other files used up the time limit of the package";
    described.set(file, batch?.described.get(file) ?? describeBroken(file, error));
  });
  return files.map((file) => described.get(file)!);
}

async function describeConcurrently(
  files: readonly string[],
  describe: (file: string) => Promise<void>,
): Promise<void> {
  const waiting = [...files];
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await describe(file);
  };
  await Promise.all(Array.from({ length: MAX_CHILDREN }, work));
}

/** Resolves when the child exits; by then at least the first file is described or has failed. */
async function importInChild(
  files: readonly string[],
  { command, import_ms }: DescribeOptions,
): Promise<Batch> {
  const batch: Batch = { described: new Map(), failed: new Map(), hung: null };
  const isDone = () => batch.described.size + batch.failed.size >= files.length;
  const [program = "", ...args] = command;
  const child = spawn(program, [...args, ...files], { stdio: ["ignore", "ignore", "pipe", "pipe"] });
  const report = child.stdio[REPORT_FD] as Readable;
  const output: Buffer[] = [];
  child.stderr?.on("data", (chunk: Buffer) => output.push(chunk));
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`its process could not be started: ${error.message}`));
    child.once("exit", (code, signal) => {
      setTimeout(() => report.destroy(), PIPE_WAIT_MS).unref();
      if (code === NEVER_SETTLED) resolve(ENDLESS);
      else
        resolve(
          `its import terminated the process (${signal === null ? `exit code ${code}` : `signal ${signal}`})`,
        );
    });
  });
  let current = files[0]!;
  const expire = () => {
    batch.hung = current;
    batch.failed.set(current, `${ENDLESS} (${import_ms / 1000} s)`);
    child.kill("SIGKILL");
  };
  let timer = setTimeout(expire, import_ms);
  const lines = createInterface({ input: report });
  lines.on("line", (text) => {
    const line = parseReportLine(text);
    if (line === null || batch.hung !== null) return;
    if ("begun" in line) current = line.begun;
    else if ("described" in line) batch.described.set(line.described.file, line.described);
    else batch.failed.set(line.failed, line.error);
    clearTimeout(timer);
    timer = setTimeout(expire, import_ms);
    // A file may leave timers behind that would keep its process alive, so the child is killed.
    if (isDone()) child.kill("SIGKILL");
  });
  const read = new Promise<void>((resolve) => lines.once("close", resolve));
  const end = await ended;
  await read;
  clearTimeout(timer);
  child.stderr?.destroy();
  if (!isDone() && batch.hung === null) {
    // For an await that can never settle, Node prints a warning about our code, so stderr is left out of the
    // error.
    const printed =
      end === ENDLESS ? "" : Buffer.concat(output).toString("utf8").trim().slice(-MAX_OUTPUT_CHARS);
    const reason = printed === "" ? "" : `: ${printed}`;
    const culprit = batch.described.has(current) ? files.find((file) => !isReported(batch, file))! : current;
    batch.failed.set(culprit, `${end}${reason}`);
  }
  return batch;
}

function isReported({ described, failed }: Batch, file: string): boolean {
  return described.has(file) || failed.has(file);
}

/** A file can write to this pipe too, so lines that are not JSON are ignored. */
function parseReportLine(text: string): ReportLine | null {
  try {
    return JSON.parse(text) as ReportLine;
  } catch {
    return null;
  }
}

function describeBroken(file: string, error: string): ToolFileDescription {
  return { ...createDefaultDescription(file), load_error: `${file}: ${error}` };
}
