/**
 * Watches the calls to versions that are on trial after an upgrade, and rolls back a version that crashes or fails too
 * often. Every gateway counts its own calls. If several gateways roll back the same trial, the generation of the
 * binding lets only the first of them succeed.
 */
import {
  type Binding,
  definedFields,
  ERROR_CODES,
  type ErrorCode,
  isErrorCode,
  toBackplaneError,
} from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import type { RegistryModule, TrialFailure } from "@backplane/registry";
import type { CallEnding } from "../calls/ending.ts";

/** Failures of the program itself, independent of the input. One such call is enough. */
const PROCESS_FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "crashed",
  "crash_loop",
  "launch_failed",
  "handshake_failed",
  "protocol_version_mismatch",
]);

/** With fewer calls, the failure rate is not significant. */
const MIN_CALLS = 20;
/** How many trials are counted at the same time. The oldest count is dropped first. */
const MAX_TRIALS = 1_000;

interface TrialCounts {
  calls: number;
  failed: number;
  /** Never rejects. Null before the trial has failed, and again after a rollback that failed. */
  rollback: Promise<void> | null;
}

type ObservedEnding = Pick<CallEnding, "status" | "error">;

type TrialDeps = Pick<KernelDeps, "clock" | "log">;

export class TrialWatch {
  readonly #deps: TrialDeps;
  readonly #upgrades: Pick<RegistryModule["upgrades"], "rollBackTrial">;
  readonly #counts = new Map<string, TrialCounts>();

  constructor(deps: TrialDeps, upgrades: Pick<RegistryModule["upgrades"], "rollBackTrial">) {
    this.#deps = deps;
    this.#upgrades = upgrades;
  }

  /**
   * `binding` is the binding that the call used, so its generation is on trial. Returns the rollback of this trial, if
   * there is one, whichever call has caused it. The promise resolves when the rollback has succeeded or failed.
   */
  observe(binding: Binding, ending: ObservedEnding, invocation_id: string): Promise<void> | null {
    const { trial } = binding;
    if (trial === undefined || ending.status === "cancelled") return null;
    if (trial.until !== null && this.#deps.clock.now() > Date.parse(trial.until)) return null;
    const counts = this.#getCounts(`${binding.binding_id}@${binding.generation}`);
    counts.calls++;
    if (isFailure(ending)) counts.failed++;
    const reason = findReason(ending, counts, trial.max_error_percent);
    if (reason !== null) counts.rollback ??= this.#rollBack(binding, { reason, invocation_id }, counts);
    return counts.rollback;
  }

  async #rollBack(binding: Binding, cause: TrialFailure, counts: TrialCounts): Promise<void> {
    const { binding_id, package_id, package_version } = binding;
    const fields = { binding_id, package_id, package_version, ...cause };
    try {
      if (await this.#upgrades.rollBackTrial(binding, cause))
        this.#deps.log.warn(fields, "rolled back a version that failed its trial");
    } catch (error) {
      // The next failed call tries again.
      counts.rollback = null;
      const { fix } = toBackplaneError(error);
      this.#deps.log.error(
        { ...fields, err: error, ...definedFields({ fix }) },
        "could not roll back a version that failed its trial",
      );
    }
  }

  #getCounts(key: string): TrialCounts {
    const existing = this.#counts.get(key);
    if (existing !== undefined) return existing;
    const counts: TrialCounts = { calls: 0, failed: 0, rollback: null };
    this.#counts.set(key, counts);
    if (this.#counts.size > MAX_TRIALS) this.#counts.delete(this.#counts.keys().next().value as string);
    return counts;
  }
}

/** Whether the process itself failed, and not only this call. */
export function isProcessFailure(code: string | undefined): boolean {
  return isErrorCode(code) && PROCESS_FAILURES.has(code);
}

/** Refusals and faults come from the gateway and do not count. An error code that the author defined counts. */
function isFailure({ status, error }: ObservedEnding): boolean {
  if (status === "succeeded") return false;
  const code = error?.code;
  if (!isErrorCode(code)) return true;
  return ERROR_CODES[code].family === "wire" || ERROR_CODES[code].family === "plugin";
}

function findReason(
  { error }: ObservedEnding,
  { calls, failed }: TrialCounts,
  max_error_percent: number,
): string | null {
  if (isProcessFailure(error?.code)) return `A call ended with ${error?.code}.`;
  if (calls < MIN_CALLS || failed * 100 <= calls * max_error_percent) return null;
  return `${failed} of ${calls} calls failed.`;
}
