/**
 * How a turn begins: its row and the user's message in one transaction, then what it needs to go on. A turn that is on
 * the record and cannot go on is ended there, so that no row stays running.
 */

import {
  BackplaneError,
  type BusEvent,
  codeOf,
  type RiskContext,
  type RunTrigger,
  toBackplaneError,
  tokenUsage,
} from "@backplane/contract";
import type { StoreWait, ToolCatalog } from "@backplane/door";
import type {
  Appended,
  Caller,
  Clock,
  Logger,
  OnceKey,
  RunHold,
  RunRow,
  SessionKey,
  Store,
  UserMessage,
} from "@backplane/ports";
import type { KernelPort, Persister, Sessions, TapeItem } from "@backplane/session";
import type { Histories, History } from "./history.ts";
import { finishTurn, runFacts } from "./run-record.ts";
import type { LoopSettings, TurnRules } from "./settings.ts";
import { Turn, type TurnLimits } from "./turn.ts";

export interface TurnRequest {
  key: SessionKey;
  caller: Caller;
  /** null: goes on from what the tape says. */
  message: UserMessage | null;
  trigger: RunTrigger;
  strategy?: string;
  /** Left out, what its trigger says. */
  context?: RiskContext;
  parent_run_id?: string;
  /** Of the turn that spawned it: a sub-agent begins only while this gateway has that turn. */
  parent?: RunHold;
  limits?: Partial<TurnLimits>;
  /** An Idempotency-Key that the run takes as it is written. */
  once?: OnceKey;
  /** Where an adapter has published the message already. */
  event?: BusEvent<"user.message.received">;
}

export interface BeginDeps {
  port: KernelPort;
  persister: Persister;
  sessions: Sessions;
  histories: Histories;
  catalog: ToolCatalog;
  settings: LoopSettings;
  store: Pick<Store, "runs">;
  ids: { next(noun: "run" | "event"): string };
  clock: Clock;
  log: Logger;
  node_id: string;
  store_wait: StoreWait;
  /** Lets plugins take their seats in an org before its first turn. */
  enter(org_id: string): Promise<void>;
  /** Throws when the caller may no longer ask for anything. */
  permit(caller: Caller): Promise<void>;
  /** Why a strategy cannot decide, or null. */
  strategyProblem(strategy: string): string | null;
}

export async function beginTurn(
  deps: BeginDeps,
  request: TurnRequest,
  items: readonly TapeItem[],
): Promise<{ turn: Turn; entry_id: number }> {
  const { key, caller } = request;
  await deps.permit({ ...caller, scope: key.scope });
  await deps.enter(key.scope.org_id);
  const rules = await deps.settings.of(key, request.strategy);
  const problem = deps.strategyProblem(rules.strategy);
  if (problem !== null) throw new BackplaneError("request.invalid", problem);
  const run = newRun(deps, request, rules, items[0]?.entry.date);
  const ids = await record(deps, request, run, items);
  run.chain_id = ids.chain_id;
  const limits = { iterations: rules.max_iterations, tools: null, ...request.limits };
  const turn = new Turn(key, caller, run, limits, request.context ?? CONTEXT_OF[request.trigger]);
  deps.persister.hold(key, turn.hold);
  try {
    const [history, { tools }] = await deps.store_wait.run("a turn", () =>
      Promise.all([historyAt(deps, key, ids), deps.catalog.snapshot(caller)]),
    );
    turn.history = history;
    turn.tools = tools;
  } catch (error) {
    const ended = await finishTurn(deps, turn, null, toBackplaneError(error));
    deps.persister.release(key, turn.hold, ended.state === "lost" ? "lost" : "ended");
    if (ended.state === "ended") turn.end(ended.run);
    throw error;
  }
  return { turn, entry_id: ids.last_id };
}

/** Only who writes a message is sure to be there; a sub-agent is given its parent's. */
export const CONTEXT_OF = {
  message: "conversation",
  api: "background",
  subagent: "background",
  approval: "background",
} as const satisfies Record<RunTrigger, RiskContext>;

function newRun(
  deps: BeginDeps,
  { key, caller, message, ...request }: TurnRequest,
  rules: TurnRules,
  said_at: string | undefined,
): RunRow {
  return {
    id: deps.ids.next("run"),
    ...key.scope,
    workspace: key.workspace,
    session_id: key.session_id,
    chain_id: "",
    parent_run_id: request.parent_run_id ?? null,
    trigger: request.trigger,
    status: "running",
    strategy: rules.strategy,
    input: message ?? { text: "" },
    output: null,
    error: null,
    usage: tokenUsage(),
    iterations: 0,
    requested_by: caller.actor,
    // With the message that asked for it: by that time it is found on the tape.
    started_at: said_at ?? new Date(deps.clock.now()).toISOString(),
    ended_at: null,
    node_id: deps.node_id,
    fence: 0,
    joins: 0,
  };
}

/** A session that is not there yet is made, and then it is tried again. */
async function record(
  deps: BeginDeps,
  { key, once, parent }: TurnRequest,
  run: RunRow,
  items: readonly TapeItem[],
): Promise<Appended> {
  const { persister, store, sessions } = deps;
  const facts = runFacts(deps, "run.started", run);
  const start = () => persister.appendInTransaction(key, items, (tape) => store.runs.start(run, tape, facts, once, parent));
  try {
    return (await start())!;
  } catch (error) {
    if (codeOf(error) !== "session.not_found") throw error;
    await sessions.open(key);
    return (await start())!;
  }
}

/** As of the message just written; read anew when others have written in between. */
async function historyAt(
  { histories }: BeginDeps,
  key: SessionKey,
  { last_id, chain_id }: Appended,
): Promise<History> {
  const history = await histories.open(key);
  if (history.last_id >= last_id && history.chain_id === chain_id) return history;
  histories.forget(key);
  return await histories.open(key);
}
