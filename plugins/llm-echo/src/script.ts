/**
 * The directives of the offline model in a user's message, one per line:
 *
 *   /tool NAME {json}       calls a tool; several lines of one step are parallel calls
 *   /then                   begins the next step, which runs when the results have arrived
 *   /say TEXT               answers TEXT; in a step with tools, before the calls
 *   /think TEXT             emits TEXT as thinking
 *   /slow MS                waits between chunks of the answer
 *   /usage N                reports N input tokens
 *   /error KIND [times N]   fails: connection, timeout, empty, other, or status CODE [retry-after S];
 *                           N times and then continues, or always without a count
 *   /help                   lists the directives
 *
 * Lines that do not begin with `/` are comments. Text without any directive is not a script and is echoed.
 */
import type { JsonObject, LlmErrorKind, LlmFailure } from "@backplane/sdk/kernel";

interface ToolStep {
  name: string;
  args: JsonObject;
}

export interface ScriptedError {
  failure: LlmFailure;
  times: number;
}

export interface Step {
  tools: ToolStep[];
  say: string[];
  think: string[];
  errors: ScriptedError[];
}

export interface Script {
  /** Every step before the last calls tools. */
  steps: Step[];
  slow_ms: number;
  input_tokens: number | null;
  /** The reasons why lines could not be parsed. If there are any, the answer lists them, and no tool is called. */
  problems: string[];
}

export const HELP = [
  "This is the offline model. It echoes what you write, or follows a script, one directive per line:",
  '/tool NAME {"json": "args"} - call a tool; several lines are parallel calls',
  "/then - begin the next step, which runs when the results have arrived",
  "/say TEXT, /think TEXT, /slow MS, /usage N",
  "/error connection|timeout|empty|other|status CODE [retry-after S] [times N]",
].join("\n");

const DIRECTIVE = /^\/(tool|then|say|think|slow|usage|error|help)(?:\s+(.*))?$/;
const MAX_SLOW_MS = 60_000;

/** Returns null if the text is not a script. */
export function readScript(text: string): Script | null {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  if (!lines.some((line) => DIRECTIVE.test(line))) return null;
  const script: Script = { steps: [newStep()], slow_ms: 0, input_tokens: null, problems: [] };
  for (const line of lines) {
    if (!line.startsWith("/")) continue;
    const [, directive, argument = ""] = DIRECTIVE.exec(line) ?? [];
    if (directive === undefined) script.problems.push(`${line.split(/\s/)[0]} is not a directive`);
    else applyDirective(script, directive, argument.trim());
  }
  return script;
}

function applyDirective(script: Script, directive: string, argument: string): void {
  const step = script.steps.at(-1)!;
  switch (directive) {
    case "tool":
      readTool(script, step, argument);
      break;
    case "then":
      // An answer without tools ends a turn, so a step without tools is merged into the next one.
      if (step.tools.length > 0) script.steps.push(newStep());
      break;
    case "say":
      step.say.push(argument);
      break;
    case "think":
      step.think.push(argument);
      break;
    case "help":
      step.say.push(HELP);
      break;
    case "slow":
      script.slow_ms = Math.min(readNumber(script, "/slow", argument), MAX_SLOW_MS);
      break;
    case "usage":
      script.input_tokens = Math.floor(readNumber(script, "/usage", argument));
      break;
    default:
      readError(script, step, argument);
  }
}

function readTool(script: Script, step: Step, argument: string): void {
  const [, name, json = ""] = /^(\S+)\s*(.*)$/.exec(argument) ?? [];
  if (name === undefined) {
    script.problems.push("/tool needs a name");
    return;
  }
  try {
    const args: unknown = json === "" ? {} : JSON.parse(json);
    if (typeof args === "object" && args !== null && !Array.isArray(args)) {
      step.tools.push({ name, args: args as JsonObject });
      return;
    }
  } catch {
    // Invalid JSON is reported below, together with values that are not objects.
  }
  script.problems.push(`the arguments of /tool ${name} are not a JSON object`);
}

const FAILURES: Record<LlmErrorKind, string> = {
  connection: "The scripted connection failed.",
  timeout: "The scripted call timed out.",
  status: "The scripted server refused.",
  empty: "The scripted answer is empty.",
  other: "The scripted call failed.",
};
const ERROR =
  /^(connection|timeout|empty|other|status\s+(\d{3})(?:\s+retry-after\s+([\d.]+))?)(?:\s+times\s+(\d+))?$/;

function readError(script: Script, step: Step, argument: string): void {
  const [, error_kind, status, after, times] = ERROR.exec(argument) ?? [];
  if (error_kind === undefined) {
    script.problems.push(`/error ${argument} is not a valid error`);
    return;
  }
  const kind = error_kind.split(/\s/)[0] as LlmErrorKind;
  step.errors.push({
    failure: {
      kind,
      message: status === undefined ? FAILURES[kind] : `${status} ${FAILURES[kind]}`,
      ...(status === undefined ? {} : { status_code: Number(status) }),
      ...(after === undefined ? {} : { retry_after_s: Number(after) }),
    },
    times: times === undefined ? Number.POSITIVE_INFINITY : Number(times),
  });
}

function readNumber(script: Script, directive: string, argument: string): number {
  if (/^\d+(\.\d+)?$/.test(argument)) return Number(argument);
  script.problems.push(`${directive} needs a number`);
  return 0;
}

function newStep(): Step {
  return { tools: [], say: [], think: [], errors: [] };
}
