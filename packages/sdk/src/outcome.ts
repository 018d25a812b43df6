/**
 * Converts a handler's return value or error into a terminal reply. A failure of the plugin is a valid reply (`ok:
 * true` with a failure status); `ok: false` is for protocol errors. The message of a failure is in `content`, in the
 * same shape for all four contracts.
 */
import type { ContentBlock, TerminalStatus } from "@backplane/contract";
import type { ToolAnswer } from "./contracts.ts";

export interface Reply {
  status: TerminalStatus | "ack";
  result?: unknown;
}

const OUTCOME = Symbol.for("backplane.sdk.outcome");
/** Longer structured output is not repeated as text, because both copies have to fit into one frame. */
const TEXT_COPY_LIMIT = 100_000;
const ANSWER_KEYS = new Set([
  "content",
  "structured_output",
  "is_error",
  "retryable",
  "status",
  "yield_to_user",
]);

/** Ends the call with a failure that a retry would not fix. */
export function fail(message: string): never {
  throw outcomeError(message, "failed");
}

/** Ends the call with a temporary failure; the gateway may retry. */
export function retryLater(message: string): never {
  throw outcomeError(message, "retryable_failure");
}

/** Converts any return value of a handler into a complete tool answer. */
export function toToolAnswer(value: unknown, has_output_schema: boolean): ToolAnswer<unknown> {
  if (value === undefined) return { content: [], is_error: false, retryable: false };
  if (isToolAnswer(value))
    return { ...value, is_error: value.is_error ?? false, retryable: value.retryable ?? false };
  if (typeof value === "string" && !has_output_schema) return successAnswer([text(value)]);
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError(`A tool must return JSON, not a ${typeof value}.`);
  const text_copy = typeof value === "string" ? value : json;
  const copy =
    text_copy.length <= TEXT_COPY_LIMIT
      ? text_copy
      : `${json.length} characters of JSON; see structured_output.`;
  return { ...successAnswer([text(copy)]), structured_output: value };
}

/** Classifies a thrown value. A handler that throws after a cancel thereby acknowledges it. */
export function replyToThrow(error: unknown, cancelled: boolean): Reply {
  const status = statusOfError(error);
  if (status !== undefined) return failureReply(status, messageOf(error));
  if (cancelled) return failureReply("cancelled", messageOf(error));
  return failureReply("failed", messageOf(error));
}

export function failureReply(status: TerminalStatus, message: string): Reply {
  const retryable = status === "retryable_failure";
  return { status, result: { content: [text(message)], is_error: true, retryable } };
}

function successAnswer(content: ContentBlock[]): ToolAnswer<unknown> {
  return { content, is_error: false, retryable: false };
}

function text(content: string): ContentBlock {
  return { type: "text", text: content };
}

function isToolAnswer(value: unknown): value is ToolAnswer<unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const content = (value as { content?: unknown }).content;
  return (
    Array.isArray(content) &&
    content.every((block) => typeof (block as { type?: unknown } | null)?.type === "string") &&
    Object.keys(value).every((key) => ANSWER_KEYS.has(key))
  );
}

function outcomeError(message: string, status: TerminalStatus): Error {
  return Object.assign(new Error(message), { [OUTCOME]: status });
}

/** Recognized by symbol and not by class, because a plugin may contain two copies of the SDK. */
export function statusOfError(error: unknown): TerminalStatus | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  return (error as { [OUTCOME]?: TerminalStatus })[OUTCOME];
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message === "" ? "The plugin failed and gave no message." : message;
}
