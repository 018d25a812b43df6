/**
 * The services and the state that every step of the door shares. `createDoorModule` creates one Door for each kernel.
 */
import type { CallContext, Json, JsonObject } from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, SessionKey } from "@backplane/ports";
import type { ExportPlans, Policies, SignInTokens } from "@backplane/registry";
import type { CompactionPublisher, HarnessTape, Persister, Sessions, TurnTape } from "@backplane/session";
import type { AdmissionState } from "../admission/rules.ts";
import type { PendingApprovals } from "../approval/pending-approvals.ts";
import type { SessionGrants } from "../approval/session-grants.ts";
import type { Authority } from "../authority/authority.ts";
import type { CallCounts } from "../calls/call-counts.ts";
import type { ConcurrencyLimits } from "../calls/concurrency.ts";
import type { LiveCall, LiveCalls } from "../calls/live-calls.ts";
import type { NodeLease } from "../node/node-lease.ts";
import type { StoreWait } from "../node/store-wait.ts";
import type { DoorBindings } from "../tools/bound-tools.ts";
import type { TrialWatch } from "../trials/trial-watch.ts";
import type { MissingFiles } from "./missing-files.ts";

export interface Door {
  deps: KernelDeps;
  /** Stored bindings and the tools of loaded plugins. */
  bindings: DoorBindings;
  turn_tape: TurnTape;
  harness_tape: HarnessTape;
  sessions: Sessions;
  persister: Persister;
  publishCompaction: CompactionPublisher;
  plans: ExportPlans;
  policies: Policies;
  authority: Authority;
  live: LiveCalls;
  /** Counts the calls that ended on this node. */
  call_counts: CallCounts;
  concurrency: ConcurrencyLimits;
  pending: PendingApprovals;
  session_grants: SessionGrants;
  sign_in_tokens: SignInTokens;
  /** Watches the versions that are on trial after an upgrade. */
  trials: Pick<TrialWatch, "observe">;
  missing_files: MissingFiles;
  lease: NodeLease;
  store_wait: StoreWait;
  state: AdmissionState & { stopping: boolean };
  samplingAccess: SamplingAccess;
  /** Whether a client watches the session of a call. Only then may the plugin prompt a user. */
  isWatched: (key: SessionKey) => boolean;
}

/**
 * Returns a function that answers sampling requests from the plugin of a call with the gateway's own model, or null if
 * the binding has no access to it.
 */
export type SamplingAccess = (
  door: Door,
  live: LiveCall,
  caller: SamplingCaller,
) => ((params: JsonObject) => Promise<Json>) | null;

/** The caller, the context and the binding of the call during which the plugin requests sampling. */
export interface SamplingCaller {
  caller: Caller;
  context: CallContext;
  bound: BoundPackage;
}
