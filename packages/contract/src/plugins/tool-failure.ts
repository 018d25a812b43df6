/**
 * Why a tool call failed, in one shape for the model, the record, MCP and the command line. An error that the author
 * returned has the kind `failed`: the tool ran and reported the failure itself. It is neither a crash nor a fault of
 * the gateway.
 */
import { ERROR_CODES, isErrorCode } from "../errors/error-codes.ts";
import type { InvocationError, ToolFailure } from "../schema/invocation.ts";
import { isObject, type Json } from "../values/json.ts";
import { sanitizeText } from "../values/sanitize-text.ts";
import type { TerminalStatus } from "../vocabulary/vocabulary.ts";

const FAILURE_LIMITS = { stderr_chars: 2_000, code_chars: 200 } as const;

interface SettledCall {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
  stderr_tail: string | null;
}

/** Null for a call that succeeded. */
export function toolFailureOf({ status, result, error, stderr_tail }: SettledCall): ToolFailure | null {
  const is_error = isObject(result) && result.is_error === true;
  if (error === null && !is_error && status === "succeeded") return null;
  const code = error?.code ?? "plugin_failed";
  const plugin_code = error?.details?.plugin_code;
  const stderr = stderr_tail === null ? "" : excerptOf(stderr_tail);
  return {
    kind: refusalKind(code) ?? errorKind(code),
    code,
    ...(typeof plugin_code === "string"
      ? { plugin_code: plugin_code.slice(0, FAILURE_LIMITS.code_chars) }
      : {}),
    retryable:
      status === "retryable_failure" || (isObject(result) && result.retryable === true) || isTemporary(code),
    ...(stderr === "" ? {} : { stderr }),
  };
}

/**
 * The information that a model needs to decide whether to retry. The message is not repeated: it is the text of the
 * result. Empty if the plugin reported only a text.
 */
export function failureNote({ kind, code, plugin_code, retryable, stderr }: ToolFailure): string {
  if (kind === "failed" && plugin_code === undefined && !retryable && stderr === undefined) return "";
  const code_suffix = plugin_code === undefined ? "" : ` (${plugin_code})`;
  const retry = retryable ? " A retry may succeed." : "";
  const output = stderr === undefined ? "" : `\n[stderr]\n${stderr}`;
  return `[error: ${code}${code_suffix}.${retry}]${output}`;
}

/** The kind of tool.error for a call that was refused before the tool ran; null for any other code. */
export function refusalKind(code: string): "validation" | "not_found" | "rejected" | null {
  if (code === "input.invalid") return "validation";
  if (code === "export.not_found" || code === "binding.not_found") return "not_found";
  if (code.endsWith("not_found")) return null;
  const is_rejected = REJECTED.has(code) || REJECTED_FAMILIES.some((family) => code.startsWith(family));
  return is_rejected ? "rejected" : null;
}

const REJECTED_FAMILIES: readonly string[] = ["approval.", "authority.", "policy."];
const REJECTED: ReadonlySet<string> = new Set([
  "binding.not_active",
  "package.corrupt",
  "package.files_missing",
  "sign_in.needed",
  "sandbox.unavailable",
  "target.host_forbidden",
  "tool.load_failed",
  "class.unsupported",
  "invocation.queue_full",
  "request.overloaded",
  "gateway_stopping",
]);

/** The kind of an error that may also occur while the tool runs, for example in a request that the tool makes. */
function errorKind(code: string): ToolFailure["kind"] {
  if (code === "timeout" || code === "crashed") return code;
  if (code === "plugin_failed" || code === "plugin_retryable") return "failed";
  if (!isErrorCode(code)) return "internal";
  const { family, http } = ERROR_CODES[code];
  if (family !== "refusal") return "internal";
  if (code.endsWith("not_found")) return "not_found";
  // 502 reports that another server failed, such as that of a model provider: nothing was refused.
  if (http === 502) return "internal";
  return INVALID_REQUEST.has(code) ? "validation" : "rejected";
}

const INVALID_REQUEST: ReadonlySet<string> = new Set([
  "request.invalid",
  "request.not_json",
  "request.too_large",
]);

function isTemporary(code: string): boolean {
  return code !== "plugin_failed" && isErrorCode(code) && ERROR_CODES[code].retryable;
}

function excerptOf(text: string): string {
  const clean = sanitizeText(text).trimEnd();
  if (clean.length <= FAILURE_LIMITS.stderr_chars) return clean;
  return `…${clean.slice(-FAILURE_LIMITS.stderr_chars).toWellFormed()}`;
}
