/**
 * Watches the calls of versions that are on trial after an upgrade, and rolls back a version that crashes or fails too
 * often. Every gateway counts its own calls; the generation of the binding decides which gateway rolls back.
 */
import { type Binding, ERROR_CODES, type ErrorCode, isErrorCode } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import type { RegistryModule } from "@backplane/registry";
import type { CallEnding } from "../calls/ending.ts";

/** The program itself is broken, whatever the call was about. One such call is enough. */
const CRASHES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "crashed",
  "crash_loop",
  "launch_failed",
  "handshake_failed",
  "protocol_version_mismatch",
]);

/** With fewer calls, the share of failures is not significant. */
const MIN_CALLS = 20;
/** How many trials are counted at the same time. The oldest count is dropped first. */
const MAX_COUNTED = 1_000;

interface TrialCounts {
  calls: number;
  failed: number;
  rolling_back: boolean;
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

  /** `binding` is the one that the call used, so its generation is the one that is on trial. */
  observe(binding: Binding, ending: ObservedEnding): void {
    const { trial } = binding;
    if (trial === undefined || ending.status === "cancelled") return;
    if (trial.until !== null && this.#deps.clock.now() > Date.parse(trial.until)) return;
    const counted = this.#count(`${binding.binding_id}@${binding.generation}`);
    counted.calls++;
    if (isFailure(ending)) counted.failed++;
    const reason = findReason(ending, counted, trial.max_error_percent);
    if (reason === null || counted.rolling_back) return;
    counted.rolling_back = true;
    void this.#rollBack(binding, reason, counted);
  }

  async #rollBack(binding: Binding, reason: string, counted: TrialCounts): Promise<void> {
    const { binding_id, package_id, package_version } = binding;
    const fields = { binding_id, package_id, package_version, reason };
    try {
      if (await this.#upgrades.rollBackTrial(binding, reason))
        this.#deps.log.warn(fields, "rolled back a version that failed its trial");
    } catch (error) {
      // The next failed call tries again.
      counted.rolling_back = false;
      this.#deps.log.error({ ...fields, err: error }, "could not roll back a version that failed its trial");
    }
  }

  #count(key: string): TrialCounts {
    const known = this.#counts.get(key);
    if (known !== undefined) return known;
    const counted = { calls: 0, failed: 0, rolling_back: false };
    this.#counts.set(key, counted);
    if (this.#counts.size > MAX_COUNTED) this.#counts.delete(this.#counts.keys().next().value as string);
    return counted;
  }
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
  const code = error?.code;
  if (isErrorCode(code) && CRASHES.has(code)) return `A call ended with ${code}.`;
  if (calls < MIN_CALLS || failed * 100 <= calls * max_error_percent) return null;
  return `${failed} of ${calls} calls failed.`;
}
