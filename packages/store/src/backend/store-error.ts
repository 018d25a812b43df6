import { BackplaneError, codeOf, diskFault, isErrorCode } from "@backplane/contract";
import { failureOf, type StoreFailure } from "../ops/op.ts";

/**
 * Turns a refusal or a driver's error into a BackplaneError. The driver's own message stays in `cause`, for the log.
 */
export function toStoreError(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined && error instanceof Error) return error as BackplaneError;
  const failure = failureOf(error) ?? plainFailure(error);
  if (failure?.disk !== undefined) return storeDiskError(failure.disk, failure.message);
  if (failure !== undefined && isErrorCode(failure.code)) {
    if (failure.code === "internal") {
      return new BackplaneError("internal", undefined, { cause: failure.details?.reason });
    }
    return new BackplaneError(
      failure.code,
      failure.message,
      failure.details === undefined ? {} : { details: failure.details },
    );
  }
  return new BackplaneError("store.unavailable", undefined, { cause: error });
}

/** A failure that the writer thread sends arrives as a plain object, not as an Error. */
function plainFailure(error: unknown): StoreFailure | undefined {
  return error instanceof Error ? undefined : (error as StoreFailure);
}

/** The error for a full or failing disk. `code` is the operating system's name for the error of the driver. */
export function storeDiskError(
  code: NonNullable<StoreFailure["disk"]>,
  message: string | undefined,
  place = "the gateway's home (store.db)",
): BackplaneError {
  return diskFault(Object.assign(new Error(message), { code, syscall: "store" }), place)!;
}
