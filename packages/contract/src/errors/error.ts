import { ERROR_CODES, type ErrorCode, isErrorCode } from "./error-codes.ts";

/** Structured facts for the caller; never a secret, a path of the host, SQL or a stack. */
export type ErrorDetails = Record<string, unknown>;

/**
 * The one error of the project. Compare `error.code`, never `instanceof`: an error may come from another
 * bundle. `message` says what happened and why; `fix` overrides the code's general remedy.
 */
export class BackplaneError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails | undefined;
  readonly fix: string;
  readonly retryable: boolean;

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: ErrorDetails; fix?: string; cause?: unknown; retryable?: boolean } = {},
  ) {
    super(
      message ?? ERROR_CODES[code].what,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = "BackplaneError";
    this.code = code;
    this.details = options.details;
    this.fix = options.fix ?? ERROR_CODES[code].remedy;
    this.retryable = options.retryable ?? ERROR_CODES[code].retryable;
  }
}

/** What to do in this very case; undefined where only the code's general remedy is known. */
export function ownFix({ code, fix }: Pick<BackplaneError, "code" | "fix">): string | undefined {
  return fix === ERROR_CODES[code].remedy ? undefined : fix;
}

/** For a record, which keeps no field of its own for it: the details, with the remedy of this case among them. */
export function withFix(error: Pick<BackplaneError, "code" | "fix" | "details">): ErrorDetails | undefined {
  const fix = ownFix(error);
  return fix === undefined ? error.details : { ...error.details, fix };
}

export function codeOf(error: unknown): ErrorCode | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return isErrorCode(code) ? code : undefined;
}

/** Any thrown value as one of ours; an unknown one becomes `internal` and keeps its cause for the log only. */
export function toBackplaneError(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined) return error as BackplaneError;
  return new BackplaneError("internal", undefined, { cause: error });
}
