/**
 * The plugin side of the instrument protocol: exposes one instrument provider through the protocol's five methods and
 * `cancel`. A plugin in its own process is connected to a pipe (serve-instruments.ts); a plugin in the gateway's
 * process is called directly, under the same rules. An error thrown by the author's `invoke` becomes a result with
 * status Error and never breaks the pipe.
 */
import {
  type CheckedInstruments,
  checkInstruments,
  INSTRUMENT_HEALTH_STATUSES,
  type Instrument,
  type InstrumentContext,
  type InstrumentHealth,
  type InstrumentInvocation,
  type InstrumentMethods,
  type InstrumentProvider,
  type InstrumentReturn,
  isObject,
  RPC_ERRORS,
} from "@backplane/contract";
import { RpcError } from "./rpc-peer.ts";

export interface InstrumentPluginOptions {
  /** Called once, at `initialize`. */
  load(): Promise<InstrumentProvider>;
  context(params: InstrumentMethods["initialize"][0]): InstrumentContext;
}

/** A method was called before `initialize` or after `shutdown`. */
const NOT_INITIALIZED = -32002;
/** The author's code failed in a method whose result cannot carry the error. */
const PROVIDER_FAILED = -32001;

export class InstrumentPlugin {
  readonly #options: InstrumentPluginOptions;
  readonly #running = new Map<string, AbortController>();
  #provider: InstrumentProvider | null = null;
  #initialize_called = false;
  #instruments: Map<string, Instrument> | null = null;

  constructor(options: InstrumentPluginOptions) {
    this.#options = options;
  }

  async initialize(params: InstrumentMethods["initialize"][0]): Promise<{ success: true }> {
    if (this.#initialize_called)
      throw new RpcError(RPC_ERRORS.invalid_request, "initialize was already called");
    this.#initialize_called = true;
    const context = this.#options.context(params);
    try {
      const provider = await this.#options.load();
      await provider.initialize(context);
      this.#provider = provider;
    } catch (error) {
      throw providerError("initialize", error);
    }
    return { success: true };
  }

  /** Returns the provider's instruments after checking them. Later calls find their instrument in this list. */
  async list(): Promise<CheckedInstruments> {
    const provider = this.#requireProvider();
    try {
      const { instruments } = provider;
      const list = typeof instruments === "function" ? await instruments.call(provider) : instruments;
      const checked = checkInstruments(list);
      const without_invoke = list.find((instrument) => typeof instrument.invoke !== "function");
      if (without_invoke !== undefined)
        throw new Error(`the instrument ${without_invoke.name} has no invoke method`);
      this.#instruments = new Map(list.map((instrument) => [instrument.name, instrument]));
      return checked;
    } catch (error) {
      throw providerError("instruments", error);
    }
  }

  async invoke(call: InstrumentInvocation): Promise<InstrumentReturn> {
    const instrument = await this.#findInstrument(call.instrument);
    const { instrument: name, invocationId, params, ...context } = call;
    const stop = new AbortController();
    this.#running.set(invocationId, stop);
    try {
      const result: unknown = await instrument.invoke(params, { ...context, signal: stop.signal });
      const problem = resultProblem(result);
      if (problem === null) return result as InstrumentReturn;
      return errorResult("MALFORMED_RESULT", `${name} returned an invalid result: ${problem}.`);
    } catch (error) {
      const { code } = error as { code?: unknown };
      return errorResult(typeof code === "string" && code !== "" ? code : "EXCEPTION", messageOf(error));
    } finally {
      this.#running.delete(invocationId);
    }
  }

  async healthCheck({ instrument }: { instrument: string }): Promise<InstrumentHealth> {
    const implementation = await this.#findInstrument(instrument);
    if (implementation.healthCheck === undefined) return { status: "Healthy" };
    try {
      const health: unknown = await implementation.healthCheck();
      if (isHealth(health)) return health;
      return { status: "Unhealthy", message: "healthCheck returned no health status" };
    } catch (error) {
      return { status: "Unhealthy", message: messageOf(error) };
    }
  }

  cancel({ invocationId, reason }: { invocationId: string; reason: string }): void {
    this.#running.get(invocationId)?.abort(new Error(reason));
  }

  async shutdown(): Promise<{ success: true }> {
    const provider = this.#requireProvider();
    this.#provider = null;
    try {
      await provider.shutdown?.();
    } catch (error) {
      throw providerError("shutdown", error);
    }
    return { success: true };
  }

  #requireProvider(): InstrumentProvider {
    if (this.#provider !== null) return this.#provider;
    throw new RpcError(NOT_INITIALIZED, "the provider is not initialized");
  }

  async #findInstrument(name: string): Promise<Instrument> {
    this.#requireProvider();
    if (this.#instruments === null) await this.list();
    const instrument = this.#instruments?.get(name);
    if (instrument !== undefined) return instrument;
    const quoted_name = JSON.stringify(name).slice(0, 80);
    throw new RpcError(RPC_ERRORS.invalid_params, `unknown instrument ${quoted_name}`);
  }
}

/** Describes why a value is not a valid result; null if it is one. Used on both sides of the pipe. */
export function resultProblem(value: unknown): string | null {
  if (!isObject(value)) return "it is not an object";
  const { error, status } = value;
  if (status !== "Success" && status !== "Error") return "its status is neither Success nor Error";
  if (error === undefined || error === null) return null;
  if (!isObject(error) || typeof error.code !== "string" || typeof error.message !== "string") {
    return "its error lacks a code or a message";
  }
  return status === "Success" ? "it has status Success and an error" : null;
}

export function isHealth(value: unknown): value is InstrumentHealth {
  return isObject(value) && (INSTRUMENT_HEALTH_STATUSES as readonly unknown[]).includes(value.status);
}

function errorResult(code: string, message: string): InstrumentReturn {
  return { status: "Error", data: { stdout: "", stderr: "" }, error: { code, message } };
}

function providerError(step: string, error: unknown): RpcError {
  return new RpcError(PROVIDER_FAILED, `${step}: ${messageOf(error)}`);
}

function messageOf(error: unknown): string {
  const message = (error as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : String(error);
}
