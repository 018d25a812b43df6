/**
 * Instrument plugins in the gateway's own process: InProcess and ClassLoaderIsolated, for bindings of class inline
 * alone, which is the operator's trust. Code in here cannot be stopped: at its deadline a call ends, is told by its
 * signal, and whatever it still answers counts for nothing.
 */
import { BackplaneError, codeOf, type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import type {
  Clock,
  DescribeOrder,
  Description,
  Logger,
  PackageFiles,
  RunOrder,
  RunOutcome,
} from "@backplane/ports";
import { describeInstruments } from "../dialects/instruments/describe-instruments.ts";
import { acceptInstrument, invokeParams } from "../dialects/instruments/instrument-call.ts";
import { dataKey, makeDataDir } from "../plugin-folders/data-folders.ts";
import type { Answer } from "../ports/answer.ts";
import type { ProcessOrder } from "../ports/dialect.ts";
import { redactorFor } from "../secrets/redact.ts";
import { BirthKeys, bornWith } from "../secrets/secret-environment.ts";
import { type InlineGuard, type InlineSeat, type InstrumentServices, openSeat } from "./inline-provider.ts";

export interface InlineDeps {
  files: PackageFiles;
  clock: Clock;
  data_root: string | null;
  services: InstrumentServices | null;
  guard: InlineGuard;
  log: Logger;
}

interface Place {
  readonly key: string;
  readonly binding_id: string;
  readonly seat: Promise<InlineSeat>;
  /** Resolves when the next may have the folder. */
  readonly gone: Promise<void>;
  calls: number;
  leave: (() => void) | null;
}

const INITIALIZE_MS = 20_000;
const SHUTDOWN_MS = 5_000;

export class InlineInstruments {
  readonly #deps: InlineDeps;
  readonly #places = new Map<string, Place>();
  readonly #keys = new BirthKeys();
  readonly #running = new Map<string, (answer: Answer) => void>();

  constructor(deps: InlineDeps) {
    this.#deps = deps;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Whether its provider is there: asking it then loads nothing. */
  serves(order: ProcessOrder): boolean {
    return this.#places.get(dataKey(order))?.key === this.#keyOf(order);
  }

  async run(order: RunOrder): Promise<RunOutcome> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<Answer>();
    const { context, invocation_id, timeout_ms } = order;
    const timer = this.#deps.clock.after(timeout_ms, () =>
      stop(failure("timeout", `The plugin did not answer within ${Math.round(timeout_ms)} ms.`)),
    );
    this.#running.set(invocation_id, stop);
    let dispatched = false;
    const call = this.#use(order, async ({ data_dir, plugin }) => {
      if (!this.#running.has(invocation_id)) throw new BackplaneError("cancelled");
      dispatched = true;
      const told = stopped.then(() => plugin.cancel({ invocationId: invocation_id, reason: "stopped" }));
      const result = await plugin.invoke(invokeParams({ context, id: invocation_id, order }, data_dir));
      void told;
      return acceptInstrument(result);
    }).catch((error: unknown) => brokenBy(error));
    const answer = await Promise.race([call, stopped]);
    timer.stop();
    this.#running.delete(invocation_id);
    const redactor = redactorFor(context);
    const clean = <T extends object | null>(value: T): T =>
      redactor.active && value !== null ? (redactor.json(value as unknown as Json) as unknown as T) : value;
    return {
      status: answer.status,
      result: clean(answer.result as JsonObject | null),
      error: clean(answer.error),
      violations: 0,
      stderr_tail: null,
      egress: null,
      dispatched,
    };
  }

  async describe(order: DescribeOrder): Promise<Description> {
    return await this.#use(order, async ({ plugin }) =>
      describeInstruments(
        await this.#within(order.timeout_ms, "list its instruments", plugin.list()),
        order.package,
      ),
    ).catch((error: unknown) => {
      throw asOurs(error);
    });
  }

  async healthCheck(order: DescribeOrder, { instrument }: JsonObject): Promise<Json> {
    if (typeof instrument !== "string") throw new BackplaneError("request.invalid", "name an instrument");
    return await this.#use(order, async ({ plugin }) => ({
      ...(await this.#within(order.timeout_ms, "answer healthCheck", plugin.healthCheck({ instrument }))),
    }));
  }

  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const stop = this.#running.get(invocation_id);
    const code = reason === "user" ? "cancelled" : "gateway_stopping";
    stop?.({ ...failure(code, new BackplaneError(code).message), status: "cancelled" });
    return stop !== undefined;
  }

  retire(binding_id: string): void {
    for (const place of this.#places.values()) if (place.binding_id === binding_id) this.#end(place);
  }

  async close(): Promise<void> {
    for (const id of this.#running.keys()) this.cancel(id, "shutdown");
    const places = [...this.#places.values()];
    for (const place of places) this.#end(place);
    await Promise.all(places.map((place) => place.gone));
  }

  async #use<T>(order: ProcessOrder, work: (seat: InlineSeat) => Promise<T>): Promise<T> {
    const place = this.#placeFor(order);
    place.calls++;
    try {
      const seat = await place.seat;
      return await this.#guarded(order, () => work(seat));
    } finally {
      place.calls--;
      this.#rest(place);
    }
  }

  /** One provider for a binding and project, whatever a single call may do: nothing confines it here anyway. */
  #placeFor(order: ProcessOrder): Place {
    const folder = dataKey(order);
    const key = this.#keyOf(order);
    const before = this.#places.get(folder);
    if (before?.key === key) return before;
    if (before !== undefined) this.#end(before);
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    const seat = this.#open(order, before?.gone ?? Promise.resolve());
    const place: Place = {
      key,
      binding_id: order.binding_id,
      seat,
      gone: left.then(() => this.#shutDown(order, seat)),
      calls: 0,
      leave,
    };
    this.#places.set(folder, place);
    // One that did not start is tried again by the next call.
    seat.catch(() => this.#end(place));
    return place;
  }

  #keyOf(order: ProcessOrder): string {
    const shared = order.pool_key.slice(0, order.pool_key.lastIndexOf("/"));
    return this.#keys.of(shared, bornWith(order, { secrets_at_start: true }, null));
  }

  async #open(order: ProcessOrder, free: Promise<void>): Promise<InlineSeat> {
    const { data_root, files, guard, log, services } = this.#deps;
    await free;
    const image = await files.open(order.package.digest);
    try {
      const data_dir = await makeDataDir(data_root, order);
      const parts = { order, image, data_dir, services, guard, log };
      const seat = this.#guarded(order, () => openSeat(parts));
      return await this.#within(INITIALIZE_MS, "initialize", seat);
    } catch (error) {
      image.release();
      throw error;
    }
  }

  async #shutDown(order: ProcessOrder, opening: Promise<InlineSeat>): Promise<void> {
    const seat = await opening.catch(() => null);
    if (seat === null) return;
    try {
      await this.#within(
        SHUTDOWN_MS,
        "shut down",
        this.#guarded(order, () => seat.shutDown()),
      );
    } catch (error) {
      this.#deps.log.warn(
        { binding_id: order.binding_id, err: error },
        "an instrument plugin did not shut down cleanly",
      );
    }
  }

  /** No new call is given to it; it shuts down when those that it has are over. */
  #end(place: Place): void {
    for (const [folder, one] of this.#places) if (one === place) this.#places.delete(folder);
    this.#rest(place);
  }

  #rest(place: Place): void {
    if (place.calls > 0 || place.leave === null) return;
    for (const one of this.#places.values()) if (one === place) return;
    place.leave();
    place.leave = null;
  }

  #guarded<T>({ grant, package: { package_id } }: ProcessOrder, work: () => T): T {
    const allowed_domains = grant.network === "none" ? [] : grant.allowed_domains;
    return this.#deps.guard.enter({ name: package_id, allowed_domains }, work);
  }

  async #within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = this.#deps.clock.after(ms, () =>
      reject(new BackplaneError("timeout", `The plugin did not ${what} within ${ms} ms.`)),
    );
    try {
      return await Promise.race([work, late]);
    } finally {
      timer.stop();
    }
  }
}

/** Class inline is the operator's permission to run a module inside the gateway; nothing else is. */
export function isInline({
  class: given,
  package: { runtime },
}: Pick<RunOrder, "class" | "package">): boolean {
  return given === "inline" && runtime.protocol === "module.instrument";
}

/** What has no code of ours is the protocol's error, whose words are for people. */
function asOurs(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined) return toBackplaneError(error);
  const { message = String(error) } = error as { message?: string };
  return new BackplaneError("plugin_protocol_error", message);
}

function brokenBy(error: unknown): Answer {
  const { code, message } = asOurs(error);
  return failure(code, message);
}

function failure(code: string, message: string): Answer {
  return { status: "failed", result: null, error: { code, message } };
}
