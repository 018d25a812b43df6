/**
 * One plugin process from its first thought to its last child:
 *   launching → ready → stopping → gone      (launching → gone when it never said hello)
 * `ready` settles once; `gone` resolves when the leader is reaped, all that it started is killed and its pipes are
 * closed. Whoever kills it, the reason is kept for the calls that it takes along.
 */
import { BackplaneError, type JsonObject, toBackplaneError } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import { stdioTransport } from "@backplane/wire";
import type { Dialect, Link, ProcessOrder, Session } from "../ports/dialect.ts";
import type { RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import { type ExitStatus, explainEarlyExit, type Place } from "../programs/diagnose-launch.ts";
import { type Death, limitMet } from "../sandbox/cause-of-death.ts";
import type { Confined } from "../sandbox/launch-confined.ts";
import type { ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";
import { afterOwnTime } from "../time/after-own-time.ts";
import type { Deadlines } from "../time/deadlines.ts";
import { asSlowStart } from "../time/slow-start.ts";
import type { Verdict } from "../time/time-budget.ts";
import { killLaunched, type Launched, type LaunchPlan, launch } from "./launch.ts";
import type { Counterpart } from "./plugin-instance.ts";
import { StderrRing } from "./stderr-ring.ts";

export interface ProcessDeps {
  host: { name: string; version: string };
  timeouts: RunnerTimeouts;
  limits: RunnerLimits;
  deadlines: Deadlines;
  watchdog: Watchdog;
  trees: ProcessTrees;
  place: Place;
  log: Logger;
}

export interface ProcessSpec {
  dialect: Dialect;
  package: { package_id: string; version: string };
  /** Null: a kernel plugin, which belongs to no binding. */
  order: ProcessOrder | null;
  notice(method: string, params: JsonObject): void;
  /** Everything that must happen before there is a process: a slot, verified bytes, a home. */
  prepare(): Promise<LaunchPlan>;
  /** A rule was broken; without an id it concerns every call in flight. */
  violation(kind: string, request_id: string | undefined): void;
}

/** How long a dead or mute process may take to be reaped, or to give up its pipes. */
const EXIT_WAIT_MS = 200;
const PIPE_WAIT_MS = 500;
const MAX_VIOLATIONS = 10_000;

export class PluginProcess implements Counterpart {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr: StderrRing;
  state: "launching" | "ready" | "stopping" | "gone" = "launching";
  exit: ExitStatus | null = null;
  /** What ended it, when it was confined and is gone. */
  death: Death | null = null;
  /** Why we ended it; null when it ended by itself. */
  killReason: string | null = null;
  /** What ended the conversation, if something did. */
  failure: BackplaneError | null = null;
  /** It was stopped by us before it was ready: its end says nothing about the plugin. */
  givenUp = false;
  session: Session | null = null;
  readonly #deps: ProcessDeps;
  readonly #spec: ProcessSpec;
  #launched: Launched | null = null;
  #killed = false;
  #violations = 0;
  /** How the last limit of its own time ended; null: it did not. */
  #late: Verdict | null = null;
  /** Grace of a shutdown, or of a process that closed its output. */
  #stopGrace: () => void = () => {};
  #isGone: () => void = () => {};

  constructor(deps: ProcessDeps, spec: ProcessSpec) {
    this.#deps = deps;
    this.#spec = spec;
    this.stderr = new StderrRing(deps.limits.stderr_bytes);
    this.gone = new Promise((resolve) => {
      this.#isGone = resolve;
    });
    this.ready = this.#start();
    this.ready.catch(() => {});
  }

  get pid(): number | undefined {
    return this.#launched?.pid;
  }

  /** Null: a plain process, or none yet. */
  get confined(): Confined | null {
    return this.#launched?.confined ?? null;
  }

  /** At once, with its whole group. */
  kill(reason: string): void {
    if (this.state === "launching" && !this.#killed) this.givenUp = true;
    this.#end(reason);
  }

  /** Asks it to end and kills it when it does not. */
  stop(grace_ms: number, reason: string): void {
    if (this.state === "launching") this.kill(reason);
    if (this.state !== "ready") return;
    this.state = "stopping";
    this.killReason = reason;
    this.session!.shutdown();
    this.#graceFor(grace_ms, reason);
  }

  after(ms: number, run: () => void): () => void {
    this.#late = null;
    return afterOwnTime(this.#deps.deadlines, this.pid ?? null, ms, (verdict) => {
      this.#late = verdict;
      run();
    });
  }

  #end(reason: string): void {
    if (this.state === "gone" || this.#killed) return;
    this.#killed = true;
    this.killReason ??= reason;
    if (this.state === "ready") this.state = "stopping";
    if (this.#launched !== null) killLaunched(this.#launched);
  }

  async #start(): Promise<void> {
    try {
      const plan = await this.#spec.prepare();
      this.#mustLive();
      this.#launched = await this.#launch(plan);
      this.#supervise(this.#launched);
      // It may have been given up while it was being born.
      if (this.#killed) killLaunched(this.#launched);
      this.#mustLive();
      this.session = this.#spec.dialect.connect(this.#link(this.#launched, plan));
      await this.session.open();
      // Usually long since: what it starts for a call is then in the cgroup too.
      await this.#launched.tree?.joined;
      if (this.failure !== null) throw this.failure;
      this.#mustLive();
      this.state = "ready";
    } catch (error) {
      const late = this.#late;
      throw asSlowStart(await this.#diagnose(toBackplaneError(error)), late);
    }
  }

  async #launch(plan: LaunchPlan): Promise<Launched> {
    const { deadlines, place, timeouts, trees, watchdog } = this.#deps;
    const limit_ms = timeouts[this.#spec.dialect.launch_limit ?? "start_ms"];
    let late = false;
    const started = launch(plan, place, watchdog, trees).then((launched) => {
      if (late) this.#discard(launched);
      return launched;
    });
    const limit = new Promise<never>((_, reject) => {
      // There is no process to look at yet, and nothing here is the plugin's doing.
      const stop = afterOwnTime(deadlines, null, limit_ms, () => {
        late = true;
        const message = `The plugin's program could not be started within ${limit_ms} ms.`;
        const details = { waited_ms: limit_ms, slow_start: true };
        reject(new BackplaneError("slow_start", message, { details }));
      });
      void started.catch(() => {}).finally(stop);
    });
    return await Promise.race([started, limit]);
  }

  #discard(launched: Launched): void {
    killLaunched(launched);
    launched.child.once("exit", () => {
      const ended = launched.tree?.end() ?? Promise.resolve();
      void ended.then(() => this.#deps.watchdog.forget(launched.pid));
    });
    for (const stream of [launched.child.stdin, launched.child.stdout, launched.child.stderr])
      stream.destroy();
  }

  #supervise(launched: Launched): void {
    const { child, pid } = launched;
    child.stderr.on("data", (chunk: Buffer) => this.stderr.append(chunk));
    child.once("exit", (code, signal) => {
      this.exit = { code, signal };
      // The leader is dead; what it left behind goes with it.
      launched.confined?.kill();
      const treeEnded = launched.tree?.end() ?? Promise.resolve();
      void treeEnded.then(() => this.#deps.watchdog.forget(pid));
      if (this.state === "ready") this.state = "stopping";
      // A child that left the group may hold the pipes for ever.
      const stopWait = afterOwnTime(this.#deps.deadlines, null, PIPE_WAIT_MS, () => {
        for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      });
      child.once("close", () => {
        stopWait();
        this.#stopGrace();
        const left = (death: Death | null) => {
          this.death = death;
          // What we saw end was bwrap; how the plugin itself ended is known inside.
          if (death !== null) this.exit = { code: death.code, signal: death.signal };
          this.state = "gone";
          this.#isGone();
        };
        if (launched.confined === null) void treeEnded.then(() => left(null));
        else void launched.confined.death.then(left);
      });
      child.stdin.destroy();
    });
  }

  #link({ child }: Launched, plan: LaunchPlan): Link {
    const { deadlines, host, limits, timeouts } = this.#deps;
    return {
      transport: stdioTransport(child.stdout, child.stdin),
      package: this.#spec.package,
      host,
      timeouts,
      limits,
      violation: (kind, request_id) => this.#violated(kind, request_id),
      stray: (text) => this.stderr.append(Buffer.from(`[stdout] ${text}\n`)),
      failure: (error) => this.#failed(error),
      order: this.#spec.order,
      data_dir: plan.data_dir ?? null,
      notice: (method, params) => this.#spec.notice(method, params),
      after: (ms, run) => {
        if (this.state === "launching") return this.after(ms, run);
        const entry = deadlines.set(ms, run);
        return () => deadlines.clear(entry);
      },
    };
  }

  #violated(kind: string, request_id: string | undefined): void {
    this.#violations++;
    if (this.#violations === 1) {
      this.#deps.log.warn({ ...this.#spec.package, kind }, "a plugin breaks the protocol");
    }
    if (this.#violations === MAX_VIOLATIONS) this.#end("it broke the protocol too often");
    this.#spec.violation(kind, request_id);
  }

  /** The conversation is over. A closed pipe is mostly a death whose exit code is still on its way. */
  #failed(error: BackplaneError): void {
    this.failure = error;
    if (this.state === "ready") this.state = "stopping";
    if (error.code !== "crashed") this.#end(error.message);
    else if (this.exit === null) {
      this.#stopGrace();
      this.#stopGrace = this.#ownTime(EXIT_WAIT_MS, () => this.#endUnlessGone("it closed its output"));
    }
  }

  #graceFor(ms: number, reason: string): void {
    const { deadlines } = this.#deps;
    this.#stopGrace();
    const entry = deadlines.set(ms, () => this.#endUnlessGone(reason));
    this.#stopGrace = () => deadlines.clear(entry);
  }

  #endUnlessGone(reason: string): void {
    if (this.exit === null) this.#end(reason);
  }

  #ownTime(ms: number, run: () => void): () => void {
    return afterOwnTime(this.#deps.deadlines, this.pid ?? null, ms, run);
  }

  #mustLive(): void {
    if (!this.#killed) return;
    throw new BackplaneError("crashed", `The process was stopped while it started: ${this.killReason}.`);
  }

  /** What the failed start comes to, after the process is surely gone. */
  async #diagnose(error: BackplaneError): Promise<BackplaneError> {
    if (this.#launched === null) {
      this.state = "gone";
      this.#isGone();
      return error;
    }
    const byItself = error.code === "crashed" && !this.#killed;
    if (byItself && this.exit === null) await this.#exitOrWait();
    const killed = this.#killed;
    const seen = this.exit !== null;
    this.#end(error.message);
    await this.gone;
    const exit = killed || !seen ? null : this.exit;
    if (this.givenUp) return error;
    const stray = error.details?.stray_output;
    const stray_output = typeof stray === "string" ? stray : undefined;
    const silent = error.details?.waited_ms !== undefined || error.details?.handshake_ms !== undefined;
    if (!byItself && stray_output === undefined && !silent) return error;
    const stderr = this.stderr.since(0, 16_384).toString("utf8");
    const why = await explainEarlyExit(
      this.#launched.entry,
      { exit, stderr, stray_output },
      this.#deps.place,
    );
    const limit = limitMet(this.death);
    const first = silent && stray_output === undefined ? `${error.message} ${why}` : why;
    const message = limit === null ? first : `${first} ${limit.message}`;
    return new BackplaneError(error.code, message, {
      details: {
        ...error.details,
        ...(exit === null ? {} : { exit_code: exit.code, signal: exit.signal }),
        ...(limit === null ? {} : { cause: limit.cause }),
      },
      cause: error,
    });
  }

  #exitOrWait(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.#ownTime(EXIT_WAIT_MS, resolve);
      this.#launched!.child.once("exit", () => {
        stop();
        resolve();
      });
    });
  }
}
