import { ERROR_CODES, type ErrorCode, isErrorCode } from "./error-codes.ts";

/** Structured details for the caller; never a secret, a host path, SQL or a stack trace. */
export type ErrorDetails = Record<string, unknown>;

/**
 * The error class of the project. Compare `error.code` instead of using `instanceof`, because an error may come from
 * another bundle. `message` states what happened and why; `fix` overrides the general remedy of the code.
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
      message ?? ERROR_CODES[code].description,
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

/** The details of the error including its specific remedy, for records without a separate field for a remedy. */
export function detailsWithFix(
  error: Pick<BackplaneError, "code" | "fix" | "details">,
): ErrorDetails | undefined {
  const fix = specificFix(error);
  return fix === undefined ? error.details : { ...error.details, fix };
}

export function codeOf(error: unknown): ErrorCode | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return isErrorCode(code) ? code : undefined;
}

/**
 * Returns an error with a known code unchanged. A disk error becomes `store.unavailable` and any other value
 * `internal`; both keep the original as their cause, for the log only.
 */
export function toBackplaneError(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined) return error as BackplaneError;
  return diskFault(error) ?? new BackplaneError("internal", undefined, { cause: error });
}

type DiskError = "ENOSPC" | "EDQUOT" | "EIO" | "EROFS";

const DISK_FAULTS: Readonly<Record<DiskError, { problem: (location: string) => string; fix: string }>> = {
  ENOSPC: {
    problem: (location) => `There is no space left on the disk of ${location}.`,
    fix: "Free space on that disk, then try again.",
  },
  EDQUOT: {
    problem: (location) => `The disk quota of ${location} is used up.`,
    fix: "Remove files or raise the quota, then try again.",
  },
  EIO: {
    problem: (location) => `The disk of ${location} failed with an I/O error.`,
    fix: "Check the disk and the log of the operating system, then try again.",
  },
  // Linux makes a file system read-only after a disk error.
  EROFS: {
    problem: (location) => `The disk of ${location} is read-only.`,
    fix: "Make the file system writable and check why it was not, then try again.",
  },
};

/** Node has no name for EDQUOT. It is 122 on Linux and 69 on BSD and macOS. */
const UNNAMED_EDQUOT = /^Unknown system error -(?:122|69)$/;

/**
 * The error code of a full or failing disk; null for any other error. An error from a plugin's process carries no
 * `syscall` (serializeError drops it), so it is not taken for an error of the gateway's disks.
 */
export function diskErrorOf(error: unknown): DiskError | null {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  if (typeof code !== "string" || typeof syscall !== "string") return null;
  if (UNNAMED_EDQUOT.test(code)) return "EDQUOT";
  return Object.hasOwn(DISK_FAULTS, code) ? (code as DiskError) : null;
}

/**
 * Converts an error of a full or failing disk, which only the operator can repair; null for any other error.
 * `location` describes the file or folder to the reader, without paths of the host if the reader may be a remote
 * client.
 */
export function diskFault(error: unknown, location = "the gateway"): BackplaneError | null {
  const name = diskErrorOf(error);
  if (name === null) return null;
  const { problem, fix } = DISK_FAULTS[name];
  return new BackplaneError("store.unavailable", problem(location), { fix, cause: error });
}
