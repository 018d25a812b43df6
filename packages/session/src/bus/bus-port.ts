/** The interface of the bus: one port per plugin, ports for parts of the kernel, and the options of each call. */

import type { BusEvent, BusPayload, IdSource, PluginCategory } from "@backplane/contract";
import type { Clock, Logger, Scope } from "@backplane/ports";

export interface BusLimits {
  /** Events queued per session. When the queue is full, `publish` waits and `tryPublish` returns null. */
  queue: number;
  /** Extra capacity for events published by a handler, and the number of publishers that may wait per session. */
  reserve: number;
  handler_ms: number;
  category_ms: Partial<Record<PluginCategory, number>>;
  /** The interval at which handlers past their deadline are found, and the delay before unused scopes are removed. */
  sweep_ms: number;
}

export interface BusDeps {
  clock: Clock;
  ids: IdSource;
  log: Logger;
  limits?: Partial<BusLimits>;
  /** Runs its argument after pending I/O and timers. A busy bus calls it to keep the event loop responsive. */
  pause?: (run: () => void) => void;
}

export interface PluginRegistration {
  name: string;
  category: PluginCategory;
  /** A null project means the whole org. */
  scope: Scope;
  bundled?: boolean;
  /** Extension prefixes in addition to the plugin's name; bundled plugins only. */
  prefixes?: readonly string[];
  /** Called after each handled event with null, or with the reason why the handler or the filter failed. */
  onHandled?: (failure: string | null) => void;
}

export type BusHandler<K extends string = string> = (event: BusEvent<K>) => unknown;

export interface SubscribeOptions {
  /** Delivers only events of this session, and events on the `kernel` session that refer to this session. */
  session?: string;
  /** Called before the handler; false skips the event. */
  filter?: (event: BusEvent) => boolean;
  /** Called when the handler's deadline passed, so that the subscriber can stop work that still runs. */
  onTimeout?: (event: BusEvent) => void;
}

export interface PublishOptions {
  session_id: string;
  /** For a port of the whole org: the project that the session belongs to. */
  project_id?: string | null;
  /** Deadline of the tool call or model call that the event requests. */
  call_ms?: number;
}

export interface RequestOptions extends Omit<PublishOptions, "call_ms"> {
  /** The event kinds that answer the request. */
  reply: string | readonly string[];
  timeout_ms: number;
  /** Accepts an answer only from this plugin, or from one of these plugins. */
  from?: string | readonly string[];
  signal?: AbortSignal;
  /** Called synchronously when the request enters the queue, before an answer can arrive. */
  onSent?: (event: BusEvent) => void;
}

export interface BusPort<Options extends PublishOptions = PublishOptions> {
  readonly name: string;
  /** Accepts kinds, prefixes that end in `.*`, and `*`. Returns a function that ends the subscription. */
  subscribe<K extends string>(
    kinds: K | readonly K[],
    handler: BusHandler<K>,
    options?: SubscribeOptions,
  ): () => void;
  /** Resolves when the event is in the session's queue, not when the event was handled. */
  publish<K extends string>(kind: K, payload: BusPayload<K>, options: Options): Promise<BusEvent<K>>;
  /** Never waits: returns null when the session's queue is full. */
  tryPublish<K extends string>(kind: K, payload: BusPayload<K>, options: Options): BusEvent<K> | null;
  /** Resolves to the first answer with this request's id as `request_id`, on the same session and in the same scope. */
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

/** A checked event with id and time that has not been published yet. */
export interface PreparedEvent<K extends string = string> {
  readonly event: BusEvent<K>;
  /** Ignores the queue limit: an event that is already stored must not be rejected. */
  readonly publish: () => void;
}

export interface KernelPort extends BusPort<KernelPublishOptions> {
  /** For events that are stored before they are published. */
  prepare<K extends string>(kind: K, payload: BusPayload<K>, options: KernelPublishOptions): PreparedEvent<K>;
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
  attach(registration: PluginRegistration): BusPort;
  /**
   * A port of the kernel sees every scope. It may publish every kind of the catalog, and extension kinds under
   * `prefixes`. With `part` the source is `kernel-<part>`.
   */
  kernel(part?: string, prefixes?: readonly string[]): KernelPort;
  stats(): BusStats;
  /** Detaches every port; waiting publishers and open requests are rejected. */
  close(): void;
}
