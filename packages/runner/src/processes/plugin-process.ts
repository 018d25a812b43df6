/**
 * One plugin process:
 *   launching → ready → stopping → gone      (launching → gone without a handshake)
 * `ready` settles once. `gone` resolves when the process is reaped, all its descendants are killed and its pipes
 * are closed. The reason for a kill is kept for the calls that it ends.
 */
import { BackplaneError, type JsonObject, type ProgressStep, toBackplaneError } from "@backplane/contract";
import type { Logger, ProcessRequest } from "@backplane/ports";
import { stdioTransport } from "@backplane/wire";
import type { ProcessScratch } from "../artifacts/collect-server-files.ts";
import { readBeneath } from "../artifacts/read-beneath.ts";
import type { Dialect, DialectSession, ProcessLink } from "../ports/dialect.ts";
import type { RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import {
  type ExitStatus,
  explainEarlyExit,
  type LaunchEnvironment,
  STRAY_PREFIX,
} from "../programs/diagnose-launch.ts";
import { discardOutput } from "../programs/keep-output.ts";
import { type ExitCause, exceededLimit } from "../sandbox/exit-cause.ts";
import type { ConfinedProcess } from "../sandbox/launch-confined.ts";
import { INSIDE } from "../sandbox/plan.ts";
import type { ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";
import type { Deadlines } from "../time/deadlines.ts";
import { setOwnTimeDeadline } from "../time/own-time-deadline.ts";
import { asSlowStart } from "../time/slow-start.ts";
import type { TimeBudgetVerdict } from "../time/time-budget.ts";
import type { FrameTap, FrameTaps } from "./frame-taps.ts";
import { killLaunched, type LaunchedProcess, type LaunchPlan, launch } from "./launch.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import { StderrRing } from "./stderr-ring.ts";

export interface ProcessDeps {
  host: { name: string; version: string };
  timeouts: RunnerTimeouts;
  limits: RunnerLimits;
  deadlines: Deadlines;
  watchdog: Watchdog;
  trees: ProcessTrees;
  environment: LaunchEnvironment;
  log: Logger;
  /** Absent where processes cannot be observed. */
  taps?: FrameTaps;
}

/** The steps of a launch: acquiring what it needs, starting the program, waiting for the handshake. */
export type LaunchStep = Extract<ProgressStep, "prepare" | "launch" | "initialize">;

export interface ProcessSpec {
  dialect: Dialect;
  package: { package_id: string; version: string };
  /** Null for a kernel plugin, which has no binding. */
  request: ProcessRequest | null;
  notify(method: string, params: JsonObject): void;
  /** Acquires what the launch needs: a slot, verified files, a home folder. */
  prepare(): Promise<LaunchPlan>;
  /** Called when the launch reaches a step. The first one, `prepare`, is not reported. */
  reportLaunchStep?: (step: LaunchStep) => void;
  /** Called for a protocol violation. Without a request id its call is unknown. */
  reportViolation(kind: string, request_id: string | undefined): void;
}

/** How long a process that closed its output may take to be reaped, and a dead one to close its pipes. */
const EXIT_WAIT_MS = 200;
const PIPE_WAIT_MS = 500;
const MAX_VIOLATIONS = 10_000;

export class PluginProcess implements PluginInstance {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr: StderrRing;
  state: "launching" | "ready" | "stopping" | "gone" = "launching";
  exit: ExitStatus | null = null;
  exitCause: ExitCause | null = null;
  kill_reason: string | null = null;
  failure: BackplaneError | null = null;
  abandoned = false;
  session: DialectSession | null = null;
  scratch: ProcessScratch | null = null;
  readonly #deps: ProcessDeps;
  readonly #spec: ProcessSpec;
  readonly #tap: FrameTap | null;
  #launched: LaunchedProcess | null = null;
  #killed = false;
  #violations = 0;
  /** The verdict of the last own-time limit; null if it was not reached. */
  #time_verdict: TimeBudgetVerdict | null = null;
  /** Cancels the running grace period. */
  #cancelGracePeriod: () => void = () => {};
  #resolveGone: () => void = () => {};

  constructor(deps: ProcessDeps, spec: ProcessSpec) {
    this.#deps = deps;
    this.#spec = spec;
    this.#tap = deps.taps?.open(spec.request, deps.limits) ?? null;
    this.stderr = new StderrRing(deps.limits.stderr_bytes);
    this.gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
    this.ready = this.#start();
    this.ready.catch(() => {});
  }

  get pid(): number | undefined {
    return this.#launched?.pid;
  }

  /** Null for a plain process and before the launch. */
  get confined(): ConfinedProcess | null {
    return this.#launched?.confined ?? null;
  }

  kill(reason: string): void {
    if (this.state === "launching" && !this.#killed) this.abandoned = true;
    this.#kill(reason);
  }

  stop(grace_ms: number, reason: string): void {
    if (this.state === "launching") this.kill(reason);
    if (this.state !== "ready") return;
    this.state = "stopping";
    this.kill_reason = reason;
    this.session!.shutdown();
    this.#killAfterGrace(grace_ms, reason);
  }

  after(ms: number, run: () => void): () => void {
    this.#time_verdict = null;
    return setOwnTimeDeadline(this.#deps.deadlines, this.pid ?? null, ms, (verdict) => {
      this.#time_verdict = verdict;
      run();
    });
  }

  #kill(reason: string): void {
    if (this.state === "gone" || this.#killed) return;
    this.#killed = true;
    this.kill_reason ??= reason;
    if (this.state === "ready") this.state = "stopping";
    if (this.#launched !== null) killLaunched(this.#launched);
  }

  async #start(): Promise<void> {
    try {
      const plan = await this.#spec.prepare();
      this.#assertNotKilled();
      this.#spec.reportLaunchStep?.("launch");
      this.#launched = await this.#launch(plan);
      this.scratch = findScratch(this.#launched, plan);
      this.#supervise(this.#launched);
      // The process may have been abandoned during its launch.
      if (this.#killed) killLaunched(this.#launched);
      this.#assertNotKilled();
      this.#spec.reportLaunchStep?.("initialize");
      this.session = this.#spec.dialect.connect(this.#createLink(this.#launched, plan));
      await this.session.open();
      // Usually the process has joined its cgroup long before. It must join before the first call, so that
      // children that it starts for the call are in the cgroup as well.
      await this.#launched.tree?.joined;
      if (this.failure !== null) throw this.failure;
      this.#assertNotKilled();
      this.state = "ready";
    } catch (error) {
      const time_verdict = this.#time_verdict;
      throw asSlowStart(await this.#diagnose(toBackplaneError(error)), time_verdict);
    }
  }

  async #launch(plan: LaunchPlan): Promise<LaunchedProcess> {
    const { deadlines, environment, timeouts, trees, watchdog } = this.#deps;
    const limit_ms = timeouts[this.#spec.dialect.launch_timeout ?? "start_ms"];
    let timed_out = false;
    const started = launch(plan, environment, watchdog, trees).then((launched) => {
      if (timed_out) this.#discard(launched);
      return launched;
    });
    const timeout = new Promise<never>((_, reject) => {
      // There is no process to sample yet, and the delay is not the plugin's fault.
      const stop = setOwnTimeDeadline(deadlines, null, limit_ms, () => {
        timed_out = true;
        const message = `The plugin's program could not be started within ${limit_ms} ms.`;
        const details = { waited_ms: limit_ms, slow_start: true };
        reject(new BackplaneError("slow_start", message, { details }));
      });
      void started.catch(() => {}).finally(stop);
    });
    return await Promise.race([started, timeout]);
  }

  #discard(launched: LaunchedProcess): void {
    killLaunched(launched);
    launched.child.once("exit", () => {
      const ended = launched.tree?.end() ?? Promise.resolve();
      void ended.then(() => this.#deps.watchdog.forget(launched.pid));
    });
    for (const stream of [launched.child.stdin, launched.child.stdout, launched.child.stderr])
      stream.destroy();
  }

  #supervise(launched: LaunchedProcess): void {
    const { child, pid } = launched;
    child.stderr.on("data", (chunk: Buffer) => {
      this.stderr.append(chunk);
      this.#tap?.showStderr(chunk);
    });
    child.once("exit", (code, signal) => {
      this.exit = { code, signal };
      // Kills what the exited process left behind.
      launched.confined?.kill();
      const tree_ended = launched.tree?.end() ?? Promise.resolve();
      void tree_ended.then(() => this.#deps.watchdog.forget(pid));
      if (this.state === "ready") this.state = "stopping";
      // A descendant that left the process group could hold the pipes open forever.
      const stopWait = setOwnTimeDeadline(this.#deps.deadlines, null, PIPE_WAIT_MS, () => {
        for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      });
      child.once("close", () => {
        stopWait();
        this.#cancelGracePeriod();
        const finish = (exitCause: ExitCause | null) => {
          this.exitCause = exitCause;
          // The observed exit is that of the outer process; the plugin's own exit was reported from inside.
          if (exitCause !== null) this.exit = { code: exitCause.code, signal: exitCause.signal };
          this.state = "gone";
          this.#resolveGone();
        };
        if (launched.confined === null) void tree_ended.then(() => finish(null));
        else void launched.confined.exitCause.then(finish);
      });
      child.stdin.destroy();
    });
  }

  #createLink({ child }: LaunchedProcess, plan: LaunchPlan): ProcessLink {
    const { deadlines, host, limits, timeouts } = this.#deps;
    const transport = stdioTransport(child.stdout, child.stdin);
    return {
      transport: this.#tap?.wrap(transport) ?? transport,
      package: this.#spec.package,
      host,
      timeouts,
      limits,
      reportViolation: (kind, request_id) => this.#countViolation(kind, request_id),
      reportStrayOutput: (text) => this.stderr.append(Buffer.from(`${STRAY_PREFIX}${text}\n`)),
      reportFailure: (error) => this.#handleFailure(error),
      request: this.#spec.request,
      data_dir: plan.data_dir ?? null,
      notify: (method, params) => this.#spec.notify(method, params),
      after: (ms, run) => {
        if (this.state === "launching") return this.after(ms, run);
        const entry = deadlines.set(ms, run);
        return () => deadlines.clear(entry);
      },
    };
  }

  #countViolation(kind: string, request_id: string | undefined): void {
    this.#violations++;
    if (this.#violations === 1) {
      this.#deps.log.warn({ ...this.#spec.package, kind }, "plugin violates its protocol");
    }
    if (this.#violations === MAX_VIOLATIONS) this.#kill("it violated its protocol too often");
    this.#spec.reportViolation(kind, request_id);
  }

  /** The session ended. A closed pipe usually means an exit whose status has not arrived yet. */
  #handleFailure(error: BackplaneError): void {
    this.failure = error;
    if (this.state === "ready") this.state = "stopping";
    if (error.code !== "crashed") this.#kill(error.message);
    else if (this.exit === null) {
      this.#cancelGracePeriod();
      this.#cancelGracePeriod = this.#afterOwnTime(EXIT_WAIT_MS, () =>
        this.#killUnlessExited("it closed its output"),
      );
    }
  }

  #killAfterGrace(ms: number, reason: string): void {
    const { deadlines } = this.#deps;
    this.#cancelGracePeriod();
    const entry = deadlines.set(ms, () => this.#killUnlessExited(reason));
    this.#cancelGracePeriod = () => deadlines.clear(entry);
  }

  #killUnlessExited(reason: string): void {
    if (this.exit === null) this.#kill(reason);
  }

  #afterOwnTime(ms: number, run: () => void): () => void {
    return setOwnTimeDeadline(this.#deps.deadlines, this.pid ?? null, ms, run);
  }

  #assertNotKilled(): void {
    if (!this.#killed) return;
    throw new BackplaneError("crashed", `The process was stopped while it started: ${this.kill_reason}.`);
  }

  /** Explains a failed start after the process has exited. */
  async #diagnose(error: BackplaneError): Promise<BackplaneError> {
    if (this.#launched === null) {
      this.state = "gone";
      this.#resolveGone();
      return error;
    }
    // Without a session nothing reads the output, and unread output would delay the exit of the process.
    if (this.session === null) discardOutput(this.#launched.child.stdout);
    const exited_itself = error.code === "crashed" && !this.#killed;
    if (exited_itself && this.exit === null) await this.#waitForExit();
    const killed = this.#killed;
    const exited = this.exit !== null;
    this.#kill(error.message);
    await this.gone;
    const exit = killed || !exited ? null : this.exit;
    if (this.abandoned) return error;
    const stray = error.details?.stray_output;
    const stray_output = typeof stray === "string" ? stray : undefined;
    const timed_out = error.details?.waited_ms !== undefined || error.details?.handshake_ms !== undefined;
    if (!exited_itself && stray_output === undefined && !timed_out) return error;
    const stderr = this.stderr.since(0, 16_384).toString("utf8");
    const reason = await explainEarlyExit(
      this.#launched.entry,
      { exit, stderr, stray_output },
      this.#deps.environment,
    );
    const limit = exceededLimit(this.exitCause);
    const explanation = timed_out && stray_output === undefined ? `${error.message} ${reason}` : reason;
    const message = limit === null ? explanation : `${explanation} ${limit.message}`;
    return new BackplaneError(error.code, message, {
      details: {
        ...error.details,
        ...(exit === null ? {} : { exit_code: exit.code, signal: exit.signal }),
        ...(limit === null ? {} : { cause: limit.cause }),
      },
      ...(limit?.fix === undefined ? {} : { fix: limit.fix }),
      cause: error,
    });
  }

  #waitForExit(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.#afterOwnTime(EXIT_WAIT_MS, resolve);
      this.#launched!.child.once("exit", () => {
        stop();
        resolve();
      });
    });
  }
}

/** A sandboxed process sees its scratch folder at two paths, `/tmp` and `INSIDE.scratch`. */
function findScratch({ confined }: LaunchedProcess, plan: LaunchPlan): ProcessScratch | null {
  if (confined !== null) {
    if (plan.confine?.grant.filesystem !== "scratch") return null;
    return {
      roots: ["/tmp", INSIDE.scratch],
      read: (path, max_bytes) => confined.readScratch(path, max_bytes),
    };
  }
  const { scratch } = plan;
  if (scratch === undefined) return null;
  return { roots: [scratch], read: (path, max_bytes) => readBeneath(scratch, path, max_bytes) };
}
