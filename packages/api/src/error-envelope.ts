/**
 * Any thrown value → status and envelope. The only place that reads ERROR_CODES[…].http. What is not ours
 * becomes `internal`: its text goes to the log and never to the client. Every not-found of one code has the same
 * bytes, so that another project's row cannot be told from a missing one (bind.scope).
 */
import {
  BackplaneError,
  codeOf,
  ERROR_CODES,
  type ErrorCode,
  type ErrorEnvelope,
  type JsonObject,
} from "@backplane/contract";
import type { FastifyRequest } from "fastify";

export interface ErrorAnswer {
  status: number;
  code: ErrorCode;
  envelope: ErrorEnvelope;
  retry_after_s: number | null;
  /** Set for what the operator should see in the log. */
  unexpected: unknown;
}

/** These name what the caller itself asked for or can see, not whether a row exists elsewhere. */
const SPEAKING: ReadonlySet<ErrorCode> = new Set(["route.not_found", "export.not_found"]);

export function answerError(thrown: unknown, request_id: string, docs_base: string): ErrorAnswer {
  const error = ours(thrown);
  const code = error.code;
  const spec = ERROR_CODES[code];
  const hidden = spec.http === 404 && !SPEAKING.has(code);
  const details = hidden
    ? { fix: spec.remedy }
    : { ...(error.details as JsonObject | undefined), fix: error.fix ?? spec.remedy };
  return {
    status: spec.http,
    code,
    envelope: {
      error: {
        code,
        message: hidden ? spec.what : error.message,
        retryable: error.retryable ?? spec.retryable,
        details,
        request_id,
        doc_url: `${docs_base}#${code}`,
      },
    },
    retry_after_s: spec.http === 429 || spec.http === 503 ? retryAfter(error.details) : null,
    unexpected: code === "internal" ? (error.cause ?? thrown) : null,
  };
}

/** Under /api the message stands a second time as `detail`, where clients of that API look for it (webapi.config). */
export function envelopeFor(request: FastifyRequest, envelope: ErrorEnvelope): ErrorEnvelope {
  // The route that was found, else the path as it was written.
  const path = request.routeOptions?.url ?? request.url;
  return /^\/api(?=[/?]|$)/.test(path) ? { ...envelope, detail: envelope.error.message } : envelope;
}

function ours(thrown: unknown): BackplaneError {
  if (codeOf(thrown) !== undefined) return thrown as BackplaneError;
  return fromFramework(thrown) ?? new BackplaneError("internal", undefined, { cause: thrown });
}

/** Fastify's own refusals, told in our words: theirs may echo what the client sent. */
function fromFramework(thrown: unknown): BackplaneError | null {
  if (typeof thrown !== "object" || thrown === null) return null;
  const { code, statusCode } = thrown as { code?: unknown; statusCode?: unknown };
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new BackplaneError("request.not_json");
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new BackplaneError("request.too_large");
  if (code === "FST_ERR_BAD_URL" || code === "FST_ERR_MAX_PARAM_LENGTH")
    return invalid("path", "The path of the request cannot be read.");
  if (code === "FST_ERR_CTP_INVALID_CONTENT_LENGTH" || code === "ECONNRESET")
    return invalid("body", "The body ended before it was complete.");
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500)
    return invalid("", "The request cannot be read.");
  return null;
}

function invalid(path: string, message: string): BackplaneError {
  return new BackplaneError("request.invalid", message, { details: { issues: [{ path, message }] } });
}

function retryAfter(details: Record<string, unknown> | undefined): number {
  const ms = details?.retry_after_ms;
  return typeof ms === "number" && ms > 0 ? Math.ceil(ms / 1000) : 1;
}
