/**
 * Turns any thrown value into a status and an error envelope. Fastify's errors for invalid requests get our codes. Any
 * other error without one of our codes becomes `internal`, or `store.unavailable` for a failing disk; its text is
 * logged and never sent. Except for the codes in WITH_OWN_MESSAGE, not-found errors with the same code differ only in
 * the request id, so that a row of another project cannot be distinguished from a missing one (bind.scope).
 */
import {
  BackplaneError,
  codeOf,
  diskFault,
  ERROR_CODES,
  type ErrorCode,
  type ErrorEnvelope,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { FastifyRequest } from "fastify";

export interface ErrorResponse {
  status: number;
  code: ErrorCode;
  envelope: ErrorEnvelope;
  retry_after_s: number | null;
  /** The error to log: an internal error or a disk fault. Null for any other error. */
  unexpected: unknown;
}

/** Not-found codes whose message depends only on the request or on rows that the caller can see. */
const WITH_OWN_MESSAGE: ReadonlySet<ErrorCode> = new Set([
  "route.not_found",
  "export.not_found",
  "llm.model_not_found",
]);

export function toErrorResponse(thrown: unknown, request_id: string, docs_base: string): ErrorResponse {
  const error = toKnownError(thrown);
  const code = error.code;
  const spec = ERROR_CODES[code];
  const hidden = spec.http === 404 && !WITH_OWN_MESSAGE.has(code);
  const details = hidden
    ? { fix: spec.remedy }
    : { ...(error.details as JsonObject | undefined), fix: error.fix ?? spec.remedy };
  return {
    status: spec.http,
    code,
    envelope: {
      error: {
        code,
        message: hidden ? spec.description : error.message,
        retryable: error.retryable ?? spec.retryable,
        details,
        request_id,
        doc_url: `${docs_base}#${code}`,
      },
    },
    retry_after_s: isTemporary(spec.http, error) ? retryAfter(error.details) : null,
    unexpected: unexpectedIn(error),
  };
}

/**
 * An internal error or a disk fault, which is logged with the file that could not be written. The response omits the
 * file, because the client may be remote.
 */
function unexpectedIn(error: BackplaneError): unknown {
  if (error.code === "internal") return error.cause ?? error;
  return diskFault(error.cause) === null ? null : error;
}

/** Under /api the message is repeated as `detail`, where clients of that API expect it (webapi.config). */
export function envelopeFor(request: FastifyRequest, envelope: ErrorEnvelope): ErrorEnvelope {
  // The matched route, otherwise the path of the request.
  const path = request.routeOptions?.url ?? request.url;
  return /^\/api(?=[/?]|$)/.test(path) ? { ...envelope, detail: envelope.error.message } : envelope;
}

function toKnownError(thrown: unknown): BackplaneError {
  if (codeOf(thrown) !== undefined) return thrown as BackplaneError;
  return fromFramework(thrown) ?? toBackplaneError(thrown);
}

/** Fastify's own errors with our messages: theirs may echo what the client sent. */
function fromFramework(thrown: unknown): BackplaneError | null {
  if (typeof thrown !== "object" || thrown === null) return null;
  const { code, statusCode } = thrown as { code?: unknown; statusCode?: unknown };
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new BackplaneError("request.not_json");
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new BackplaneError("request.too_large");
  if (code === "FST_ERR_BAD_URL" || code === "FST_ERR_MAX_PARAM_LENGTH")
    return invalid("path", "The path of the request cannot be parsed.");
  if (code === "FST_ERR_CTP_INVALID_CONTENT_LENGTH" || code === "ECONNRESET")
    return invalid("body", "The body ended before it was complete.");
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500)
    return invalid("", "The request cannot be parsed.");
  return null;
}

function invalid(path: string, message: string): BackplaneError {
  return new BackplaneError("request.invalid", message, { details: { issues: [{ path, message }] } });
}

/** A provider may request a pause; the client then gets a Retry-After header, as for our own limits. */
function isTemporary(status: number, { code, details }: BackplaneError): boolean {
  return status === 429 || status === 503 || (code === "llm.failed" && details?.retry_after_ms !== undefined);
}

function retryAfter(details: Record<string, unknown> | undefined): number {
  const ms = details?.retry_after_ms;
  return typeof ms === "number" && ms > 0 ? Math.ceil(ms / 1000) : 1;
}
