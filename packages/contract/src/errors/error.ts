import { ERROR_CODES, type ErrorCode, isErrorCode } from "./error-codes.ts";

/** Structured details for the caller; never a secret, a host path, SQL or a stack trace. */
export type ErrorDetails = Record<string, unknown>;

/**
 * The error class of the project. Compare `error.code` instead of using `instanceof`, because an error may come from
 * another bundle. `message` says what happened and why; `fix` overrides the general remedy of the code.
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

/** The remedy of this specific error; undefined if only the general remedy of its code is known. */
export function specificFix({ code, fix }: Pick<BackplaneError, "code" | "fix">): string | undefined {
  return fix === ERROR_CODES[code].remedy ? undefined : fix;
}

/** The details with the specific remedy included, for records without a field for it. */
export function withFix(error: Pick<BackplaneError, "code" | "fix" | "details">): ErrorDetails | undefined {
  const fix = specificFix(error);
  return fix === undefined ? error.details : { ...error.details, fix };
}

export function codeOf(error: unknown): ErrorCode | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return isErrorCode(code) ? code : undefined;
}

/** Converts any thrown value; an unknown one becomes `internal` and keeps its cause for the log only. */
export function toBackplaneError(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined) return error as BackplaneError;
  return new BackplaneError("internal", undefined, { cause: error });
}
