/** What the bus offers: a port per plugin, ports for the kernel's own parts, and what each call takes. */

import type { BusEvent, BusPayload, IdSource, PluginCategory } from "@backplane/contract";
import type { Clock, Logger, Scope } from "@backplane/ports";

export interface BusLimits {
  /** Events that wait in one session; beyond it `publish` waits and `tryPublish` answers null. */
  queue: number;
  /** Room beyond `queue` for publishes out of a handler, and how many publishers may wait. */
  reserve: number;
  handler_ms: number;
  category_ms: Partial<Record<PluginCategory, number>>;
  /** How often the one timer looks for handlers past their deadline. */
  sweep_ms: number;
}

export interface BusDeps {
  clock: Clock;
  ids: IdSource;
  log: Logger;
  limits?: Partial<BusLimits>;
  /** Runs its argument after pending input and timers had their turn; a busy bus calls it now and then. */
  pause?: (run: () => void) => void;
}

export interface PluginSeat {
  name: string;
  category: PluginCategory;
  /** A null project is the whole org. */
  scope: Scope;
  bundled?: boolean;
  /** Extension prefixes besides the own name; for bundled plugins only. */
  prefixes?: readonly string[];
  /** Told after each handled event: null, or why the handler failed. */
  settled?: (failure: string | null) => void;
}

export type BusHandler<K extends string = string> = (event: BusEvent<K>) => unknown;

export interface SubscribeOptions {
  /** Only events of this session, and those of `kernel` that are about it. */
  session?: string;
  /** Runs before the handler; false skips it. */
  where?: (event: BusEvent) => boolean;
  /** Told when the handler's deadline passed, so that its host can stop what still runs. */
  expired?: (event: BusEvent) => void;
}

export interface PublishOptions {
  session_id: string;
  /** For a port of the whole org: the project that the session belongs to. */
  project_id?: string | null;
  /** How long the tool or provider that is called may take. */
  call_ms?: number;
}

export interface RequestOptions extends Omit<PublishOptions, "call_ms"> {
  /** The kinds that answer. */
  reply: string | readonly string[];
  timeout_ms: number;
  /** Only an answer of this plugin, or of one of these, counts. */
  from?: string | readonly string[];
  signal?: AbortSignal;
  /** Told in the step that gives the request its place, before any answer can come. */
  sent?: (event: BusEvent) => void;
}

export interface BusPort<Options extends PublishOptions = PublishOptions> {
  readonly name: string;
  /** Kinds, or patterns that end in `.*`, or `*`. The answer ends the subscription. */
  subscribe<K extends string>(
    kinds: K | readonly K[],
    handler: BusHandler<K>,
    options?: SubscribeOptions,
  ): () => void;
  /** Resolves when the event has its place in the session's queue, not when it was handled. */
  publish<K extends string>(kind: K, payload: BusPayload<K>, options: Options): Promise<BusEvent<K>>;
  /** Never waits: null when the session's queue is full. */
  tryPublish<K extends string>(kind: K, payload: BusPayload<K>, options: Options): BusEvent<K> | null;
  /** The first answer whose `request_id` is this request's id, on the same session and in the same scope. */
  request<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    options: RequestOptions & Pick<Options, Exclude<keyof Options, "call_ms">>,
  ): Promise<BusEvent>;
  detach(): void;
}

export interface KernelPublishOptions extends PublishOptions {
  scope: Scope;
}

/** An event with its id and time, checked, that nobody has seen yet. */
export interface Prepared<K extends string = string> {
  readonly event: BusEvent<K>;
  /** It has its place at once: what is on disk is not refused any more. */
  readonly publish: () => void;
}

export interface KernelPort extends BusPort<KernelPublishOptions> {
  /** For facts that are written before they are told. */
  prepare<K extends string>(kind: K, payload: BusPayload<K>, options: KernelPublishOptions): Prepared<K>;
}

export interface BusStats {
  sessions: number;
  queued: number;
  waiting: number;
  running: number;
  requests: number;
  scopes: number;
  subscriptions: number;
}

export interface Bus {
  attach(seat: PluginSeat): BusPort;
  /** A port of the kernel itself: sees every scope, may publish every kind. `part` gives source `kernel-<part>`. */
  kernel(part?: string, prefixes?: readonly string[]): KernelPort;
  stats(): BusStats;
  /** Ends every port; waiting publishers and requests are refused. */
  close(): void;
}
