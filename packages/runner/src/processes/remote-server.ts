/**
 * A remote server with the lifecycle of a process: launching → ready → gone. Nothing is started or killed; the server
 * counts as gone when the session has ended.
 */
import { BackplaneError, toBackplaneError } from "@backplane/contract";
import type { Transport } from "@backplane/wire";
import type { DialectSession, ProcessLink } from "../ports/dialect.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import type { ProcessDeps, ProcessSpec } from "./plugin-process.ts";
import { StderrRing } from "./stderr-ring.ts";

const MAX_VIOLATIONS = 10_000;

export class RemoteServer implements PluginInstance {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr = new StderrRing(1);
  readonly exit = null;
  readonly exitCause = null;
  readonly pid = undefined;
  readonly confined = null;
  readonly scratch = null;
  state: PluginInstance["state"] = "launching";
  kill_reason: string | null = null;
  failure: BackplaneError | null = null;
  abandoned = false;
  session: DialectSession | null = null;
  readonly #deps: ProcessDeps;
  readonly #spec: ProcessSpec;
  #violations = 0;
  #resolveGone: () => void = () => {};

  constructor(deps: ProcessDeps, spec: ProcessSpec) {
    this.#deps = deps;
    this.#spec = spec;
    this.gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
    this.ready = this.#start();
    this.ready.catch(() => {});
  }

  kill(reason: string): void {
    if (this.state === "launching") this.abandoned = true;
    this.#kill(reason);
  }

  stop(_grace_ms: number, reason: string): void {
    this.kill(reason);
  }

  /** Counts wall-clock time, because the processor time of a remote server cannot be measured. */
  after(ms: number, run: () => void): () => void {
    const { deadlines } = this.#deps;
    const entry = deadlines.set(ms, run);
    return () => deadlines.clear(entry);
  }

  async #start(): Promise<void> {
    await Promise.resolve();
    try {
      this.#assertNotKilled();
      this.#spec.reportLaunchStep?.("initialize");
      this.session = this.#spec.dialect.connect(this.#createLink());
      await this.session.open();
      if (this.failure !== null) throw this.failure;
      this.#assertNotKilled();
      this.state = "ready";
    } catch (error) {
      const reason = toBackplaneError(error);
      this.#kill(reason.message);
      throw reason;
    }
  }

  #kill(reason: string): void {
    if (this.state === "gone") return;
    this.kill_reason ??= reason;
    this.state = "gone";
    this.session?.shutdown();
    this.#resolveGone();
  }

  #assertNotKilled(): void {
    if (this.state === "launching") return;
    throw new BackplaneError(
      "crashed",
      `The connection to the server was closed before it was ready: ${this.kill_reason}.`,
    );
  }

  #createLink(): ProcessLink {
    const { host, limits, log, timeouts } = this.#deps;
    return {
      transport: NO_TRANSPORT,
      package: this.#spec.package,
      host,
      timeouts,
      limits,
      reportViolation: (kind, request_id) => {
        this.#violations++;
        if (this.#violations === 1) log.warn({ ...this.#spec.package, kind }, "server violates its protocol");
        if (this.#violations === MAX_VIOLATIONS) this.#kill("it violated its protocol too often");
        this.#spec.reportViolation(kind, request_id);
      },
      reportFailure: (error) => {
        this.failure = error;
        this.#kill(error.message);
      },
      request: this.#spec.request,
      data_dir: null,
      notify: (method, params) => this.#spec.notify(method, params),
      after: (ms, run) => this.after(ms, run),
    };
  }
}

/** Dialects for remote servers create their own connections. */
const NO_TRANSPORT: Transport = {
  write: () => true,
  queuedBytes: 0,
  onData: () => {},
  onDrain: () => {},
  onClose: () => {},
  pause: () => {},
  resume: () => {},
  close: () => {},
};
