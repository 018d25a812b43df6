/**
 * A server that runs elsewhere, with the life of a process: launching → ready → stopping → gone. Nothing is started and
 * nothing killed here; its end is the end of the conversation.
 */
import { BackplaneError, toBackplaneError } from "@backplane/contract";
import type { Transport } from "@backplane/wire";
import type { Link, Session } from "../ports/dialect.ts";
import type { Counterpart } from "./plugin-instance.ts";
import type { ProcessDeps, ProcessSpec } from "./plugin-process.ts";
import { StderrRing } from "./stderr-ring.ts";

const MAX_VIOLATIONS = 10_000;

export class RemoteServer implements Counterpart {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr = new StderrRing(1);
  readonly exit = null;
  readonly death = null;
  readonly pid = undefined;
  readonly confined = null;
  state: Counterpart["state"] = "launching";
  killReason: string | null = null;
  failure: BackplaneError | null = null;
  givenUp = false;
  session: Session | null = null;
  readonly #deps: ProcessDeps;
  readonly #spec: ProcessSpec;
  #violations = 0;
  #isGone: () => void = () => {};

  constructor(deps: ProcessDeps, spec: ProcessSpec) {
    this.#deps = deps;
    this.#spec = spec;
    this.gone = new Promise((resolve) => {
      this.#isGone = resolve;
    });
    this.ready = this.#start();
    this.ready.catch(() => {});
  }

  kill(reason: string): void {
    if (this.state === "launching") this.givenUp = true;
    this.#end(reason);
  }

  stop(_grace_ms: number, reason: string): void {
    this.kill(reason);
  }

  /** What a server elsewhere does with its time cannot be seen from here. */
  after(ms: number, run: () => void): () => void {
    const { deadlines } = this.#deps;
    const entry = deadlines.set(ms, run);
    return () => deadlines.clear(entry);
  }

  async #start(): Promise<void> {
    await Promise.resolve();
    try {
      this.#mustLive();
      this.session = this.#spec.dialect.connect(this.#link());
      await this.session.open();
      if (this.failure !== null) throw this.failure;
      this.#mustLive();
      this.state = "ready";
    } catch (error) {
      const why = toBackplaneError(error);
      this.#end(why.message);
      throw why;
    }
  }

  #end(reason: string): void {
    if (this.state === "gone") return;
    this.killReason ??= reason;
    this.state = "gone";
    this.session?.shutdown();
    this.#isGone();
  }

  #mustLive(): void {
    if (this.state === "launching") return;
    throw new BackplaneError("crashed", `The conversation was ended while it began: ${this.killReason}.`);
  }

  #link(): Link {
    const { host, limits, log, timeouts } = this.#deps;
    return {
      transport: NO_TRANSPORT,
      package: this.#spec.package,
      host,
      timeouts,
      limits,
      violation: (kind, request_id) => {
        this.#violations++;
        if (this.#violations === 1) log.warn({ ...this.#spec.package, kind }, "a server breaks the protocol");
        if (this.#violations === MAX_VIOLATIONS) this.#end("it broke the protocol too often");
        this.#spec.violation(kind, request_id);
      },
      failure: (error) => {
        this.failure = error;
        this.#end(error.message);
      },
      order: this.#spec.order,
      data_dir: null,
      notice: (method, params) => this.#spec.notice(method, params),
      after: (ms, run) => this.after(ms, run),
    };
  }
}

/** A dialect of servers elsewhere brings its own way. */
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
