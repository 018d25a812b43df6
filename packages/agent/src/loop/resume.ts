/**
 * Resumes turns whose gateway died. The tape holds everything that such a turn has done, so another gateway continues
 * from there: it waits for the calls that the door recovered, then calls the model or makes the tool calls that have
 * not been made yet. Only calls whose effect class allows it run twice (inv.effect-class). A turn whose gateway died a
 * second time is not resumed again. A sub-agent resumes while the call that spawned it runs (subagent.resume).
 */

import { BackplaneError, isId } from "@backplane/contract";
import { toDelegatedCaller } from "@backplane/door";
import { type Caller, type RunRow, type SessionKey, type Store, withChannel } from "@backplane/ports";
import { type KernelPort, sessionMapKey, type TapeFeed, toTapedEntry } from "@backplane/session";
import { type BeginDeps, resolveLimits, riskContextOf } from "./begin-turn.ts";
import { findDiscoveredTools, findForbiddenTools, type Progress, readTurnProgress } from "./progress.ts";
import { buildRunRecords, finishTurn } from "./run-record.ts";
import { Turn } from "./turn.ts";

export interface ResumeDeps extends BeginDeps {
  store: Pick<Store, "runs" | "invocations" | "sessions" | "keys">;
  persister: BeginDeps["persister"] & TapeFeed;
  /** Publishes events of the kind x.loop.*. */
  loop_port: KernelPort;
  /** False means that every interrupted turn is ended instead of resumed. */
  resume_turns: boolean;
  /** Ties the recovered calls of the turn to the turn, so that they end together. */
  adoptCalls: (turn: Turn) => void;
  /** Ties the turn of a sub-agent to its parent, its call and its time limit. */
  adoptSubagent: (turn: Turn) => void;
}

const MAX_RESUMES = 1;
/** The interval at which the tape is read again for results that another node writes. */
const POLL_MS = 1_000;

/** Throws the reason if the turn cannot continue. Returns null if this gateway no longer holds the turn. */
export async function resumeTurn(deps: ResumeDeps, run: RunRow): Promise<Turn | null> {
  const { persister, store, sessions, settings } = deps;
  const key = keyOf(run);
  const wait = <T>(work: () => Promise<T>) => deps.store_wait.run("a turn that is resumed", work);
  const caller = await wait(() => resolveCaller(deps, run));
  const problem = await wait(() => findResumeProblem(deps, run, caller));
  if (caller === null || problem !== null) throw new BackplaneError("loop.failed", problem!);
  await wait(() => deps.requireAuthority(caller));
  await wait(() => deps.prepareOrg(key.scope.org_id));
  const rules = await wait(() => settings.read(key, run.strategy));
  const strategy_problem = deps.findStrategyProblem(rules.strategy);
  if (strategy_problem !== null)
    throw new BackplaneError("loop.failed", `${INTERRUPTED}. ${strategy_problem}`);
  const progress = readTurnProgress((await wait(() => sessions.hydrate(key))).entries, run.first_entry_id);
  const resumed_run: RunRow = { ...run, resumed: (run.resumed ?? 0) + 1 };
  const prepared = deps.loop_port.prepare(
    "x.loop.turn.resumed",
    { run_id: run.id, resumed: resumed_run.resumed, from: progress.answer === null ? "model" : "answer" },
    { session_id: key.session_id, scope: key.scope },
  );
  const item = { entry: toTapedEntry(prepared.event)!.entry, event: prepared.event };
  const ids = await wait(() =>
    persister.appendInTransaction(key, [item], (tape) => store.runs.resume(resumed_run, tape)),
  );
  if (ids === null) return null;
  persister.hold(key, { run_id: run.id, fence: run.fence });
  prepared.publish();
  const turn = new Turn(key, caller, resumed_run, resolveLimits(run, rules), riskContextOf(run));
  // Another gateway may have written to this tape, and then a cached history is stale.
  deps.histories.forget(key);
  const [history, { tools }] = await wait(() =>
    Promise.all([deps.histories.open(key), deps.catalog.snapshot(caller)]),
  );
  turn.history = history;
  turn.tools = tools;
  deps.adoptCalls(turn);
  deps.adoptSubagent(turn);
  return turn;
}

/**
 * Waits until the turn has no open calls, restores its state from the tape and returns its progress. Throws `cancelled`
 * if the turn is stopped first.
 */
export async function waitForOpenCalls(deps: ResumeDeps, turn: Turn): Promise<Progress> {
  for (;;) {
    const next = watchNextWrite(deps, turn);
    const { entries } = await deps.store_wait.run(
      "a turn",
      () => deps.sessions.hydrate(turn.key),
      turn.signal,
    );
    const progress = readTurnProgress(entries, turn.run.first_entry_id);
    if (progress.open.length > 0) {
      await next.written;
      continue;
    }
    next.stop();
    for (const usage of progress.usage) turn.addUsage(usage);
    for (const name of findDiscoveredTools(entries, turn.run.first_entry_id)) turn.found_tools.add(name);
    turn.forbidden = findForbiddenTools(entries, turn.run.first_entry_id, (tool) => turn.allows(tool));
    turn.iterations = progress.usage.length;
    // Incremented rather than assigned, because messages may have joined while the tape was read.
    if (progress.has_new_message) turn.new_messages++;
    return progress;
  }
}

/**
 * Records the failure and a last message, so that the tape shows that the turn ended. If the session no longer exists,
 * only the row of the run is written.
 */
export async function endOrphan(deps: ResumeDeps, run: RunRow, failure: BackplaneError): Promise<void> {
  const key = keyOf(run);
  if ((await deps.store.sessions.get(key)) === null) {
    const { code, message } = failure;
    const { usage, iterations, output } = run;
    const ended_at = new Date(deps.clock.now()).toISOString();
    const end = { usage, iterations, output, status: "failed" as const, error: { code, message }, ended_at };
    const hold = { run_id: run.id, fence: run.fence };
    const caller = (await resolveCaller(deps, run)) ?? {};
    const records = buildRunRecords(deps, "run.failed", { ...run, ...end }, caller);
    await deps.store.runs.end(run, hold, Number.MAX_SAFE_INTEGER, end, null, records);
    return;
  }
  // The rights of the caller may be gone. Its delegation records whether a hook started the run.
  const { delegation } = (await resolveCaller(deps, run)) ?? {};
  const caller: Caller = {
    ...NO_SCOPES,
    actor: run.requested_by,
    scope: key.scope,
    ...(delegation === undefined ? {} : { delegation }),
  };
  const turn = new Turn(key, caller, run, { iterations: 0, tools: null });
  deps.adoptCalls(turn);
  await turn.close();
  turn.joins = Number.MAX_SAFE_INTEGER;
  const finished = await finishTurn(deps, turn, null, failure);
  if (finished.state === "ended") turn.end(finished.run);
}

const INTERRUPTED = "The gateway stopped during this turn";

async function findResumeProblem(
  { resume_turns, store }: ResumeDeps,
  run: RunRow,
  caller: Caller | null,
): Promise<string | null> {
  if (!resume_turns) return `${INTERRUPTED}.`;
  if ((run.resumed ?? 0) >= MAX_RESUMES) {
    return "The gateway stopped twice during this turn, so the turn is not resumed again.";
  }
  if (run.trigger === "subagent") {
    // Calls are recovered before turns, so a call that was not recovered has ended by now.
    const id = run.subagent?.invocation_id;
    const call = id === undefined ? null : await store.invocations.get(keyOf(run).scope, id);
    if (call?.status !== "running")
      return `${INTERRUPTED}, and its parent turn no longer waits for the answer.`;
  }
  return caller === null ? `${INTERRUPTED}, and its caller no longer has access.` : null;
}

const NO_SCOPES = { role: "user", scopes: [], admin: false } as const satisfies Partial<Caller>;

/** Returns the caller with its current rights. `requireAuthority` decides whether an API key is still valid. */
async function resolveCaller(deps: ResumeDeps, run: RunRow): Promise<Caller | null> {
  const caller = await findCaller(deps, run);
  return caller === null || run.channel === undefined ? caller : withChannel(caller, run.channel);
}

async function findCaller({ store }: ResumeDeps, run: RunRow): Promise<Caller | null> {
  const { org_id, project_id, requested_by: actor } = run;
  const scope = { org_id, project_id };
  if (actor === "admin") return { actor, scope, role: "owner", scopes: ["admin"], admin: true };
  if (isId("invocation", actor)) {
    const row = await store.invocations.get(scope, actor);
    return row === null ? null : toDelegatedCaller(row);
  }
  if (!isId("key", actor)) return { ...NO_SCOPES, actor, scope };
  const key = await store.keys.get(org_id, actor);
  if (key === null) return null;
  const tools_field = key.tools === undefined ? {} : { tools: key.tools };
  return {
    actor,
    scope,
    role: key.role,
    scopes: key.scopes,
    admin: key.scopes.includes("admin"),
    ...tools_field,
  };
}

interface NextWrite {
  written: Promise<void>;
  stop(): void;
}

/** Must be called before the tape is read, so that no write in between is missed. */
function watchNextWrite({ persister, clock }: ResumeDeps, { key, signal }: Turn): NextWrite {
  const { promise: written, resolve, reject } = Promise.withResolvers<void>();
  const map_key = sessionMapKey(key);
  const unsubscribe = persister.onWritten((written_key) => {
    if (sessionMapKey(written_key) === map_key) resolve();
  });
  const timer = clock.after(POLL_MS, resolve);
  const onAbort = () => reject(new BackplaneError("cancelled", "The turn was interrupted."));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const stop = () => {
    unsubscribe();
    timer.stop();
    signal.removeEventListener("abort", onAbort);
  };
  written.then(stop, stop);
  return { written, stop };
}

export function keyOf({ org_id, project_id, workspace, session_id }: RunRow): SessionKey {
  return { scope: { org_id, project_id }, workspace, session_id };
}
