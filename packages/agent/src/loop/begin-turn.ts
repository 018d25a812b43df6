/**
 * Begins turns and writes the messages of users. The row of a turn and the message are written in one
 * transaction. A turn that is recorded but cannot continue is ended, so that no row stays `running`. A
 * message is published on the bus after it is written. A message that a plugin published itself is not
 * published again.
 */

import {
  BackplaneError,
  type BusEvent,
  codeOf,
  type JsonObject,
  type RiskContext,
  type RunTrigger,
  toBackplaneError,
  tokenUsage,
} from "@backplane/contract";
import type { StoreWait, ToolCatalog } from "@backplane/door";
import {
  type AppendedEntries,
  type Caller,
  type Clock,
  causeOf,
  HOST_ADMIN,
  hasRole,
  type IdempotencyClaim,
  type Logger,
  type RunHold,
  type RunRow,
  type SessionKey,
  type Store,
  type SubagentRun,
  type TapeWrite,
  type UserMessage,
} from "@backplane/ports";
import {
  type KernelPort,
  type Persister,
  type Sessions,
  type TapeItem,
  toTapedEntry,
} from "@backplane/session";
import type { Histories, History } from "./history.ts";
import { buildRunRecords, causeOfTurn, finishTurn } from "./run-record.ts";
import type { LoopSettings, TurnRules } from "./settings.ts";
import { Turn, type TurnLimits } from "./turn.ts";

export interface TurnRequest {
  key: SessionKey;
  caller: Caller;
  /** Null means that the turn continues from its tape. */
  message: UserMessage | null;
  trigger: RunTrigger;
  strategy?: string;
  /** Defaults to the context of the trigger. */
  context?: RiskContext;
  parent_run_id?: string;
  /** The trace of the parent turn. If absent, the run has the trace of the call that started it, or a new one. */
  trace_id?: string | undefined;
  /** The hold of the parent turn. A sub-agent begins only while this gateway holds its parent. */
  parent?: RunHold;
  /** The harness execution that the run counts against, and the depth of the run. */
  execution?: { id: string; depth: number };
  /** Set for a sub-agent. */
  subagent?: SubagentRun;
  /** An Idempotency-Key that is claimed in the transaction that writes the run. */
  once?: IdempotencyClaim;
  /** The event of a message that a plugin has already published. */
  event?: BusEvent<"user.message.received">;
}

/** The part of a turn request that links a run to the plugin's call that starts it. */
export type ChildRunLink = Pick<TurnRequest, "trigger" | "parent_run_id" | "execution">;

export interface BeginDeps {
  port: KernelPort;
  persister: Persister;
  sessions: Sessions;
  histories: Histories;
  catalog: ToolCatalog;
  settings: LoopSettings;
  store: Pick<Store, "runs">;
  ids: { next(noun: "run" | "event" | "trace"): string };
  clock: Clock;
  log: Logger;
  node_id: string;
  store_wait: StoreWait;
  /** Subscribes plugins to the events of an org and creates its default provider instances, before its first turn. */
  prepareOrg(org_id: string): Promise<void>;
  /** Throws when the caller has lost its authority. */
  requireAuthority(caller: Caller): Promise<void>;
  /** Returns null if no plugin starts the turn. Throws if the plugin may not start it. */
  linkChildRun(request: TurnRequest): Promise<ChildRunLink | null>;
  /** Returns the reason why a strategy cannot be used, or null. */
  findStrategyProblem(strategy: string): string | null;
}

export async function beginTurn(
  deps: BeginDeps,
  requested: TurnRequest,
  items: readonly TapeItem[],
): Promise<{ turn: Turn; entry_id: number }> {
  const { key, caller } = requested;
  await deps.requireAuthority({ ...caller, scope: key.scope });
  // Every turn begins here, so no way of starting one bypasses the limits of a harness.
  const request = { ...requested, ...(await deps.linkChildRun(requested)) };
  await deps.prepareOrg(key.scope.org_id);
  const rules = await deps.settings.read(key, request.strategy);
  const problem = deps.findStrategyProblem(rules.strategy);
  if (problem !== null) throw new BackplaneError("request.invalid", problem);
  const run = buildRun(deps, request, rules, items[0]?.entry.date);
  const ids = await recordStart(deps, request, run, items);
  run.chain_id = ids.chain_id;
  run.first_entry_id = ids.first_id;
  const turn = new Turn(key, caller, run, resolveLimits(run, rules), request.context ?? riskContextOf(run));
  deps.persister.hold(key, turn.hold);
  try {
    const [history, { tools }] = await deps.store_wait.run("a turn", () =>
      Promise.all([readHistoryAt(deps, key, ids), deps.catalog.snapshot(caller)]),
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

/**
 * Only the sender of a message is known to be present, so every other trigger runs in the background context.
 * A sub-agent gets the context of its parent.
 */
const CONTEXT_BY_TRIGGER = {
  message: "conversation",
  api: "background",
  subagent: "background",
  approval: "background",
  harness: "background",
} as const satisfies Record<RunTrigger, RiskContext>;

export function riskContextOf({ subagent, trigger }: RunRow): RiskContext {
  return subagent?.context ?? CONTEXT_BY_TRIGGER[trigger];
}

export function resolveLimits({ subagent }: RunRow, { max_iterations }: TurnRules): TurnLimits {
  if (subagent === undefined) return { iterations: max_iterations, tools: null };
  const { iterations, tools } = subagent;
  return { iterations, tools: tools === null ? null : new Set(tools) };
}

function buildRun(
  deps: BeginDeps,
  { key, caller, message, ...request }: TurnRequest,
  rules: TurnRules,
  message_date: string | undefined,
): RunRow {
  return {
    id: deps.ids.next("run"),
    ...key.scope,
    workspace: key.workspace,
    session_id: key.session_id,
    chain_id: "",
    first_entry_id: 0,
    parent_run_id: request.parent_run_id ?? null,
    trace_id: request.trace_id ?? causeOf(caller).trace_id ?? deps.ids.next("trace"),
    trigger: request.trigger,
    status: "running",
    strategy: rules.strategy,
    input: message ?? { text: "" },
    output: null,
    error: null,
    usage: tokenUsage(),
    iterations: 0,
    requested_by: caller.actor,
    ...(caller.channel === undefined ? {} : { channel: caller.channel }),
    // The run starts when its message arrives, however long the setup takes.
    started_at: message_date ?? new Date(deps.clock.now()).toISOString(),
    ended_at: null,
    node_id: deps.node_id,
    fence: 0,
    joins: 0,
    ...(request.subagent === undefined ? {} : { subagent: request.subagent }),
  };
}

/** Writes the run and its first entries. If the session does not exist yet, it is created first. */
async function recordStart(
  deps: BeginDeps,
  { key, caller, once, parent, execution }: TurnRequest,
  run: RunRow,
  items: readonly TapeItem[],
): Promise<AppendedEntries> {
  const { persister, store, sessions } = deps;
  const records = buildRunRecords(deps, "run.started", run, caller);
  const start = () =>
    persister.appendInTransaction(key, items, (tape) =>
      store.runs.start(run, tape, items.length, records, once, parent, execution),
    );
  try {
    return (await start())!;
  } catch (error) {
    if (codeOf(error) !== "session.not_found") throw error;
    await sessions.open(key, causeOfTurn(caller, run));
    return (await start())!;
  }
}

/**
 * Returns a history that includes the message just written. If the cached history lacks it, because another gateway has
 * written in between or the head has moved, the tape is read again.
 */
async function readHistoryAt(
  { histories }: BeginDeps,
  key: SessionKey,
  { last_id, chain_id }: AppendedEntries,
): Promise<History> {
  const history = await histories.open(key);
  if (history.last_id >= last_id && history.chain_id === chain_id) return history;
  histories.forget(key);
  return await histories.open(key);
}

/**
 * Returns whether a message may join a running turn. The turn acts with the rights of its caller, so a sender with
 * fewer rights would gain them. Such a message waits and begins its own turn.
 */
export function mayJoin(turn_caller: Caller, sender: Caller): boolean {
  if (sender.actor === turn_caller.actor) return true;
  if (sender.delegation !== undefined || turn_caller.actor === HOST_ADMIN) return false;
  return hasRole(sender.role, turn_caller.role) && (sender.admin || !turn_caller.admin);
}

export interface PreparedMessage {
  items: TapeItem[];
  event_id: string;
  publish: () => void;
}

/** `onPublish` is called with the id of the event just before it is published. */
export function prepareMessage(
  port: KernelPort,
  { key, message, event }: Pick<TurnRequest, "key" | "message" | "event">,
  onPublish: (event_id: string) => void,
): PreparedMessage {
  if (event !== undefined) return { items: [itemOf(event)], event_id: event.id, publish() {} };
  if (message === null) return { items: [], event_id: "", publish() {} };
  const { text, attachments } = message;
  const payload = { text, ...(attachments === undefined ? {} : { attachments }) };
  const to = { session_id: key.session_id, scope: key.scope };
  const prepared = port.prepare("user.message.received", payload, to);
  const publish = () => {
    onPublish(prepared.event.id);
    prepared.publish();
  };
  return { items: [itemOf(prepared.event)], event_id: prepared.event.id, publish };
}

/**
 * Appends the message to the tape of a running turn. A message with an idempotency key is a separate write that claims
 * the key.
 */
export async function writeMessage(
  { persister, sessions }: Pick<BeginDeps, "persister" | "sessions">,
  turn: Turn,
  { items, event_id }: PreparedMessage,
  once: IdempotencyClaim | undefined,
): Promise<AppendedEntries> {
  if (once === undefined) return await persister.append(turn.key, items);
  const claim = { ...once, response_fields: { run_id: turn.run.id, event_id } };
  const write = (tape: TapeWrite) => sessions.appendTape(tape, claim);
  return (await persister.appendInTransaction(turn.key, items, write))!;
}

export function messageOf({ text, attachments }: BusEvent<"user.message.received">["payload"]): UserMessage {
  return attachments === undefined ? { text } : { text, attachments: attachments as JsonObject[] };
}

function itemOf(event: BusEvent): TapeItem {
  return { entry: toTapedEntry(event)!.entry, event };
}
