/**
 * Computes the answers of the offline model. The model keeps no position between calls: the current step follows
 * from the number of results since the last user message. Only scripted errors are counted, by conversation,
 * because a retry looks like the first attempt.
 */
import {
  type GenerateRequest,
  LlmCallError,
  type LlmPart,
  type StopSignal,
  textOf,
} from "@backplane/sdk/kernel";
import { HELP, readScript, type Script, type ScriptedError, type Step } from "./script.ts";

type Message = GenerateRequest["history"][number];

const CHUNKS = 16;
const MIN_CHUNK_LENGTH = 6;
/** The maximum number of conversations whose scripted errors are counted. */
const MAX_COUNTED = 1_000;

export class ScriptedErrors {
  readonly #failed = new Map<string, number>();

  /** The error that is due, or null once each error has occurred as often as the script specifies. */
  next(conversation: string, errors: readonly ScriptedError[]): ScriptedError | null {
    const failed_count = this.#failed.get(conversation) ?? 0;
    let remaining = failed_count;
    for (const error of errors) {
      if (remaining < error.times) {
        this.#count(conversation, failed_count + 1);
        return error;
      }
      remaining -= error.times;
    }
    this.#failed.delete(conversation);
    return null;
  }

  #count(conversation: string, failed: number): void {
    this.#failed.delete(conversation);
    this.#failed.set(conversation, failed);
    if (this.#failed.size > MAX_COUNTED) this.#failed.delete(this.#failed.keys().next().value!);
  }
}

export async function* answer(
  request: GenerateRequest,
  errors: ScriptedErrors,
): AsyncGenerator<LlmPart, void, undefined> {
  const last = request.history.findLastIndex((message) => message.role === "user");
  const user = request.history[last];
  const text = user === undefined ? "" : textOf(user.content);
  const script = readScript(text);
  if (script === null) {
    yield* speak(`echo: ${text}`, 0, request.signal);
    yield* endParts(request, `echo: ${text}`, null);
    return;
  }
  const results = request.history.slice(last + 1).filter((message) => message.role === "tool");
  const step = stepAfter(script, results.length);
  const step_errors = step === undefined ? [] : step.errors;
  const error = step_errors.length === 0 ? null : errors.next(conversationOf(request.history), step_errors);
  if (error !== null) {
    yield { type: "usage", usage: { input_other: countInputTokens(request, script) } };
    if (error.failure.kind === "empty") return;
    throw new LlmCallError(error.failure);
  }
  yield* perform(script, step, request);
}

async function* perform(
  script: Script,
  step: Step | undefined,
  request: GenerateRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const { slow_ms, problems } = script;
  const tools = problems.length > 0 ? [] : (step?.tools ?? []);
  const spoken =
    problems.length > 0
      ? `I cannot follow this script: ${problems.join("; ")}.\n${HELP}`
      : (step?.say ?? []).join("\n");
  for (const thought of step?.think ?? []) yield* speak(thought, slow_ms, request.signal, "thinking");
  const text = spoken === "" && tools.length === 0 ? summarizeResults(request.history) : spoken;
  yield* speak(text, slow_ms, request.signal);
  for (const [index, { name, args }] of tools.entries()) {
    const json = JSON.stringify(args);
    const half = Math.ceil(json.length / 2);
    // The call has no id: the SDK assigns one that is unique in the session.
    yield { type: "tool_call", index, name, args: json.slice(0, half) };
    yield { type: "tool_call", index, args: json.slice(half) };
  }
  yield* endParts(request, text + JSON.stringify(tools), script, tools.length > 0 ? "tool_calls" : "stop");
}

/** The first step without tools or with unanswered calls; undefined if there is none. */
function stepAfter(script: Script, results: number): Step | undefined {
  let remaining = results;
  return script.steps.find((step) => {
    const is_open = step.tools.length === 0 || remaining < step.tools.length;
    remaining -= step.tools.length;
    return is_open;
  });
}

function summarizeResults(history: readonly Message[]): string {
  const last = history.findLastIndex((message) => message.role === "user");
  const names = new Map<string, string>();
  const lines: string[] = [];
  for (const message of history.slice(last + 1)) {
    if (message.role === "assistant") {
      for (const { id, name } of message.tool_calls ?? []) names.set(id, name);
    } else if (message.role === "tool") {
      const failed = message.is_error === true ? " (failed)" : "";
      lines.push(`- ${names.get(message.tool_call_id) ?? "tool"}${failed}: ${textOf(message.content)}`);
    }
  }
  return lines.length === 0 ? "Done." : `Tool results:\n${lines.join("\n")}`;
}

async function* speak(
  text: string,
  slow_ms: number,
  signal: StopSignal,
  type: "content" | "thinking" = "content",
): AsyncGenerator<LlmPart, void, undefined> {
  const length = Math.max(MIN_CHUNK_LENGTH, Math.ceil(text.length / CHUNKS));
  // The text is split between characters, never inside one.
  for (const [chunk] of text.matchAll(new RegExp(`[\\s\\S]{1,${length}}`, "gu"))) {
    if (signal.aborted) return;
    yield { type, text: chunk };
    if (slow_ms > 0) await pause(slow_ms, signal);
  }
}

function* endParts(
  request: GenerateRequest,
  spoken: string,
  script: Script | null,
  reason = "stop",
): Generator<LlmPart> {
  yield {
    type: "usage",
    usage: { input_other: countInputTokens(request, script), output: estimateTokens(spoken.length) },
  };
  yield { type: "stop", reason, model: request.model };
}

function countInputTokens({ system, history, tools }: GenerateRequest, script: Script | null): number {
  if (script !== null && script.input_tokens !== null) return script.input_tokens;
  let chars = system.length;
  for (const { name, description, parameters } of tools) {
    chars += name.length + description.length + JSON.stringify(parameters).length;
  }
  for (const message of history) {
    chars += textOf(message.content).length;
    if (message.role === "assistant" && message.tool_calls)
      chars += JSON.stringify(message.tool_calls).length;
  }
  return estimateTokens(chars);
}

function estimateTokens(chars: number): number {
  return Math.ceil(chars / 4);
}

function conversationOf(history: readonly Message[]): string {
  return history.map((message) => `${message.role}:${textOf(message.content)}`).join("\n");
}

function pause(ms: number, signal: StopSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
  });
}
