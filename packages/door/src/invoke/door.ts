/** What every step of the door shares. Made once by createKernel; holds no more than the calls under way. */
import type { CallContext, Json, JsonObject } from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, SessionKey } from "@backplane/ports";
import type { ExportPlans, Policies, SignInTokens } from "@backplane/registry";
import type { TurnTape } from "@backplane/session";
import type { PendingApprovals } from "../approval/pending.ts";
import type { SessionGrants } from "../approval/session-grants.ts";
import type { Authority } from "../authority/authority.ts";
import type { ConcurrencyGates } from "../calls/concurrency.ts";
import type { LiveCall, LiveCalls } from "../calls/live.ts";
import type { NodeLease } from "../node/node-lease.ts";
import type { StoreWait } from "../node/store-wait.ts";
import type { Surroundings } from "../policy/rule.ts";
import type { DoorBindings } from "../tools/bound-tools.ts";

export interface Door {
  deps: KernelDeps;
  /** Stored bindings and the tools of loaded plugins. */
  bindings: DoorBindings;
  turns: TurnTape;
  plans: ExportPlans;
  policies: Policies;
  /** Whether whoever asked may still go on. */
  authority: Authority;
  live: LiveCalls;
  gates: ConcurrencyGates;
  pending: PendingApprovals;
  grants: SessionGrants;
  tokens: SignInTokens;
  lease: NodeLease;
  store_wait: StoreWait;
  around: Surroundings & { stopping: boolean };
  /** The gateway's own model for what a call's plugin asks; null: not lent. */
  lend: LendModel;
  /** Whether somebody watches the session of a call, and so can be asked. */
  watched: (key: SessionKey) => boolean;
}

/** How a call gets the gateway's own model for the sampling requests of its plugin. */
export type LendModel = (
  door: Door,
  live: LiveCall,
  borrower: Borrower,
) => ((params: JsonObject) => Promise<Json>) | null;

/** Who called the tool during which the server asks. */
export interface Borrower {
  caller: Caller;
  context: CallContext;
  bound: BoundPackage;
}
