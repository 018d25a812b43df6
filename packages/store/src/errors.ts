import { BackplaneError, codeOf, isErrorCode } from "@backplane/contract";
import { type Failure, failureOf } from "./op.ts";
import { damageOf } from "./sqlite/driver-damage.ts";

/** A refusal or a driver's error as one of ours. What a driver says stays in `cause`, for the log only. */
export function rethrow(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined && error instanceof Error) return error as BackplaneError;
  const failure = failureOf(error) ?? damageOf(error) ?? plainFailure(error);
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

function plainFailure(error: unknown): Failure | undefined {
  return error instanceof Error ? undefined : (error as Failure);
}
