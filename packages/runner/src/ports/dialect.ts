/**
 * What a dialect is: it turns one way of speaking over pipes into exports and calls, and foreign failures into
 * our codes. It knows nothing of pools, deadlines, policy or storage. A new dialect is a new file here and a
 * line in the list.
 */
import type { BackplaneError, InvocationContext, Json, JsonObject, Protocol } from "@backplane/contract";
import type { DescribeOrder, Description, RequestListener, RunOrder } from "@backplane/ports";
import type { Transport } from "@backplane/wire";
import type { Answer } from "./answer.ts";
import type { RunnerLimits, RunnerTimeouts } from "./settings.ts";

export interface Dialect {
  readonly protocol: Protocol;
  /** `pooled`: one process serves many calls at once. `call`: one process, one call. */
  readonly lifetime: "pooled" | "call";
  /** One process per binding also when isolated: a server that a process per call would make forget everything. */
  readonly resident?: boolean;
  /** The limit of time until its program runs, where it is not the general one. */
  readonly launch_limit?: keyof RunnerTimeouts;
  /** False: a call has no folder of its own, since the dialect has no word to tell of it; the process has one. */
  readonly call_scratch?: false;
  /** It has a folder of its own that lasts: of one binding and project, one process at a time. */
  readonly keeps_data?: boolean;
  /** Why this order cannot be spoken in this dialect; null when it can. */
  refuses(order: RunOrder): string | null;
  /** What is started, where that is not simply the manifest's entrypoint. Rejects with a BackplaneError. */
  launch?(order: ProcessOrder, where: LaunchPlace): Promise<DialectLaunch>;
  connect(link: Link): Session;
  /** Its process is told the secrets when it starts, and no call brings them. */
  readonly secrets_at_start?: boolean;
  /** A server elsewhere: nothing is started, and `transport` is not there. */
  readonly remote?: boolean;
}

/** What a process is started for: a call, or a question about what it offers. */
export type ProcessOrder = Omit<DescribeOrder, "timeout_ms">;

interface LaunchPlace {
  /** The verified package folder on the host. */
  folder: string;
  /** In the sandbox the package is at /plugin and the binds at their targets; a plain process sees host paths. */
  confined: boolean;
  programs: HostPrograms;
  /** The folder that lasts, on the host; made when it is asked for. */
  dataDir: () => Promise<string>;
}

/** Programs of ours that load other people's modules, each one bundled file; absent: this build has none. */
export interface HostPrograms {
  instruments?: string;
  tool_files?: string;
  /** Sources, since only a plugin in Java needs them compiled. */
  java_instruments?: JavaHostPlaces;
  /** A private copy of one of them, which is what is started; absent: the file itself is. */
  ownCopy?: (file: string) => string;
}

export interface JavaHostPlaces {
  /** The folder with the Java packages of the host. */
  sources: string;
  /** The folder that keeps the compiled jar. */
  cache: string;
}

export interface DialectLaunch {
  entrypoint: string[];
  env: Record<string, string>;
  /** Files and folders of ours, or the plugin's own data folder, that the sandbox shows besides. */
  binds: { source: string; target: string; writable: boolean }[];
  /** The folder that lasts, as the process sees it. */
  data_dir?: string;
}

/** What a session gets from the process it speaks to. */
export interface Link {
  transport: Transport;
  package: { package_id: string; version: string };
  host: { name: string; version: string };
  timeouts: RunnerTimeouts;
  limits: RunnerLimits;
  /** A rule was broken without changing an outcome. */
  violation(kind: string, request_id?: string): void;
  /** Output that is not a message and was skipped. It belongs to the diagnosis, so it is kept with what stderr says. */
  stray?(text: string): void;
  /** Nothing can be said to this process any more; every call in flight has been told. */
  failure(error: BackplaneError): void;
  /** What the binding gives the process as such: config and secrets. Null: a kernel plugin, which has none. */
  order: ProcessOrder | null;
  /** The folder that lasts, as the process sees it; null: its dialect keeps none. */
  data_dir: string | null;
  /** The process says something that belongs to no call. */
  notice(method: string, params: JsonObject): void;
  /**
   * Runs once after `ms`, unless the returned function is called before. While a process starts, `ms` count in its own
   * time: what it computed and what it waited for, not what a busy machine kept it from doing.
   */
  after(ms: number, run: () => void): () => void;
}

/** One call as the dialect sees it. */
export interface Exchange {
  readonly id: string;
  readonly order: RunOrder;
  /** The order's, with a reference in the place of large input. */
  readonly body: JsonObject;
  /** With scratch_dir, when the grant has scratch. */
  readonly context: InvocationContext;
  /** The request is on its way: from here on the plugin's code may have acted. */
  sent(): void;
  event(event: JsonObject & { type: string }): void;
  /** Whether somebody is there whom the plugin could ask. */
  readonly can_ask: boolean;
  /** The plugin asks whoever called; rejects when nobody is there to answer. */
  ask(method: string, params: JsonObject, key?: string): Promise<Json>;
  /** Exactly one of the two, once. */
  answered(answer: Answer): void;
  broke(error: BackplaneError): void;
}

export interface Session {
  /** The handshake. Rejects with a BackplaneError. */
  open(): Promise<void>;
  /** What it offers. Only of protocols that describe themselves. */
  describe?(): Promise<Description>;
  /** MCP beyond tools. Rejects with a BackplaneError; `signal` takes the question back. */
  request?(method: string, params: JsonObject, listener: RequestListener, signal: AbortSignal): Promise<Json>;
  /** What the binding gives from now on; a call brings it along, a question does not. */
  refresh?(context: ProcessOrder["context"]): void;
  call(exchange: Exchange): void;
  /** False: this dialect has no word for it, so there is no grace to wait for. */
  cancel(id: string, reason: string): boolean;
  /** No answer is wanted any more. */
  abandon(id: string, error: BackplaneError): void;
  /** Asks the process to end. */
  shutdown(): void;
  /** After the end of a one-call process: what its remaining output makes of an answer that had been accepted. */
  verdict(): BackplaneError | null;
}
