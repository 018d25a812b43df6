/**
 * Converts every error of a model call into an `LlmFailure` (llm.provider). Errors of a vendor's SDK are recognized by
 * their fields and names and never with `instanceof`, because that SDK is loaded lazily. Text from the server's response
 * is not repeated (sec.provider-egress): a failure that the server reported gets a message of our own, with the status
 * and a known code. `redact` removes configured secrets from a message.
 */
import {
  isSecretConfigKey,
  type Json,
  type LlmFailure,
  sanitizeText,
  specificFix,
} from "@backplane/contract";

const MAX_MESSAGE_LENGTH = 2_000;
const MAX_LOGGED_LENGTH = 500;
/** Shorter values are not treated as secrets, because replacing them would garble every message. */
const MIN_SECRET_LENGTH = 4;
const CONNECTION_CODES =
  /^(ECONN|ENOTFOUND|EAI_|EPIPE|EHOST|ENET|UND_ERR_(SOCKET|CONNECT|CLOSED|ABORTED)|CERT_|ERR_TLS)/;
/** Known error codes of vendors. Any other value is text from the server and is not repeated. */
const VENDOR_CODES: ReadonlySet<string> = new Set([
  "api_error",
  "authentication_error",
  "billing_error",
  "billing_not_active",
  "content_filter",
  "content_policy_violation",
  "context_length_exceeded",
  "insufficient_quota",
  "internal_error",
  "invalid_api_key",
  "invalid_prompt",
  "invalid_request_error",
  "model_not_found",
  "not_found_error",
  "overloaded_error",
  "permission_error",
  "rate_limit_error",
  "rate_limit_exceeded",
  "request_too_large",
  "server_error",
  "string_above_max_length",
  "timeout_error",
  "unsupported_country_region_territory",
  "unsupported_parameter",
  "unsupported_value",
]);
const TIMEOUT_CODES = /^(ETIMEDOUT|UND_ERR_(HEADERS|BODY|CONNECT)_TIMEOUT)/;

/** A failure that is already classified, thrown by our own code and by providers. */
export class LlmCallError extends Error {
  readonly failure: LlmFailure;

  constructor(failure: LlmFailure, options?: { cause?: unknown }) {
    super(failure.message, options);
    this.name = "LlmCallError";
    this.failure = failure;
  }
}

/** The stream ended before the model finished: a partial answer is never treated as complete. */
export function brokenStream(cause?: unknown): LlmCallError {
  return new LlmCallError(
    { kind: "connection", message: "The model's answer ended before it was complete." },
    { cause },
  );
}

export function classifyFailure(error: unknown): LlmFailure {
  const classified = findOwnFailure(error);
  if (classified !== null) return classified;
  const thrown = fieldsOf(error);
  if (typeof thrown.status === "number") {
    const retry_after_s = parseRetryAfter(thrown.headers);
    return {
      kind: "status",
      message: `The provider returned HTTP ${thrown.status}${codeIn(thrown)}.`,
      status_code: thrown.status,
      ...(retry_after_s === undefined ? {} : { retry_after_s }),
    };
  }
  const kind = findConnectionKind(error);
  if (kind !== null) return { kind, message: CONNECTION_MESSAGES[kind] };
  if (isReported(thrown)) {
    return { kind: "other", message: `The provider reported an error${codeIn(thrown)}.` };
  }
  return { kind: "other", message: messageWithFix(error) };
}

const CONNECTION_MESSAGES = {
  connection: "The connection to the provider failed.",
  timeout: "The provider did not answer in time.",
};

/**
 * Finds a failure that our own code threw, even inside an SDK's wrapper, or a refusal of the gateway's egress guard.
 */
function findOwnFailure(error: unknown): LlmFailure | null {
  for (let depth = 0, current = error; depth < 5 && current !== undefined && current !== null; depth++) {
    const fields = fieldsOf(current);
    if (isFailure(fields.failure)) return fields.failure;
    // The outermost error is skipped, because a vendor's SDK copies the code of the response there.
    if (depth > 0 && isRefusal(fields)) return { kind: "other", message: messageWithFix(current) };
    current = fields.cause;
  }
  return null;
}

function isRefusal({ name, code }: Record<string, unknown>): boolean {
  return name === "BackplaneError" && code === "policy.denied";
}

/** A failure has only a message, so the fix of a refusal becomes a part of it. */
function messageWithFix(error: unknown): string {
  const fields = fieldsOf(error);
  const fix =
    isRefusal(fields) && typeof fields.fix === "string"
      ? specificFix({ code: "policy.denied", fix: fields.fix })
      : undefined;
  return fix === undefined ? messageOf(error) : `${messageOf(error)} ${fix}`;
}

/** The vendors' SDKs keep the body of the response as `error`. */
function isReported(thrown: Record<string, unknown>): boolean {
  return typeof thrown.error === "object" && thrown.error !== null;
}

/** Returns the vendor's error code in parentheses; an empty string if the code is not a known one. */
function codeIn(thrown: Record<string, unknown>): string {
  const sent = fieldsOf(thrown.error);
  const inner = fieldsOf(sent.error);
  const candidates = [thrown.code, sent.code, inner.code, thrown.type, sent.type, inner.type];
  return vendorCode(candidates);
}

/** Returns ` (code)`, or an empty string if none of the candidates is a known code. */
export function vendorCode(candidates: readonly unknown[]): string {
  const isKnown = (word: unknown): word is string => typeof word === "string" && VENDOR_CODES.has(word);
  const known = candidates.find(isKnown);
  return known === undefined ? "" : ` (${known})`;
}

/** The server's text, only for the host's log: bounded, on one line, without invisible characters. */
export function upstreamText(error: unknown): string {
  return sanitizeText(messageOf(error).slice(0, MAX_LOGGED_LENGTH)).replaceAll(/\s+/g, " ");
}

/** Replaces every secret of the instance's configuration, and passwords inside URLs. */
export function redact(message: string, config: Readonly<Record<string, Json>>): string {
  let clean = message;
  for (const secret of secretsIn(config)) clean = clean.replaceAll(secret, "****");
  return clean.replaceAll(/\/\/[^/@\s]+@/g, "//****@").slice(0, MAX_MESSAGE_LENGTH);
}

/** Sorted longest first, so that replacing a shorter secret never leaves a part of a longer one visible. */
function secretsIn(config: Readonly<Record<string, Json>>): string[] {
  const secrets: string[] = [];
  const visit = (key: string, value: Json, secret: boolean): void => {
    const hidden = secret || isSecretConfigKey(key);
    if (typeof value === "object" && value !== null) {
      for (const [name, inner] of Object.entries(value)) visit(name, inner, hidden);
    } else if (hidden && typeof value === "string" && value.length >= MIN_SECRET_LENGTH) {
      secrets.push(value, encodeURIComponent(value));
    }
  };
  for (const [key, value] of Object.entries(config)) visit(key, value, false);
  return secrets.toSorted((a, b) => b.length - a.length);
}

/** Searches the chain of causes, because the vendors' SDKs wrap socket errors. */
function findConnectionKind(error: unknown): "connection" | "timeout" | null {
  let kind: "connection" | "timeout" | null = null;
  for (let depth = 0, current = error; depth < 5 && current !== undefined && current !== null; depth++) {
    const { name, code, cause, constructor: type } = fieldsOf(current);
    const names = `${String(name)} ${typeof type === "function" ? type.name : ""}`;
    if (/Timeout/.test(names) || (typeof code === "string" && TIMEOUT_CODES.test(code))) return "timeout";
    if (/APIConnectionError/.test(names) || (typeof code === "string" && CONNECTION_CODES.test(code))) {
      kind = "connection";
    }
    // The error of Node's HTTP client when a socket closes in the middle of a body.
    if (type === TypeError && /^(terminated|fetch failed)$/.test(messageOf(current))) kind = "connection";
    current = cause;
  }
  return kind;
}

/** `Retry-After` is seconds or a date; `retry-after-ms` is more precise if a vendor sends it. */
function parseRetryAfter(headers: unknown): number | undefined {
  const get = fieldsOf(headers).get;
  if (typeof get !== "function") return undefined;
  const read = (name: string): string | null => (headers as Headers).get(name);
  const ms = Number.parseFloat(read("retry-after-ms") ?? "");
  if (ms >= 0) return ms / 1_000;
  const text = read("retry-after");
  if (text === null) return undefined;
  const seconds = /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1_000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function isFailure(value: unknown): value is LlmFailure {
  const { kind, message } = fieldsOf(value);
  return typeof kind === "string" && typeof message === "string";
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
}

function messageOf(error: unknown): string {
  const { message } = fieldsOf(error);
  if (typeof message === "string" && message !== "") return message;
  return typeof error === "string" && error !== "" ? error : "The provider failed and gave no reason.";
}
