/**
 * Instrument plugins inside the gateway process (InProcess and ClassLoaderIsolated), only for bindings of class
 * inline, which the operator trusts. Their code cannot be stopped: at its deadline a call ends, its signal
 * is aborted, and a later answer is ignored.
 */
import { BackplaneError, codeOf, type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import type {
  Clock,
  DescribeRequest,
  Description,
  Logger,
  PackageFiles,
  ProcessRequest,
  RunOutcome,
  RunRequest,
} from "@backplane/ports";
import { describeInstruments } from "../dialects/instruments/describe-instruments.ts";
import { acceptInstrument, invokeParams } from "../dialects/instruments/instrument-call.ts";
import { dataKey, makeDataDir } from "../plugin-folders/data-folders.ts";
import type { PluginAnswer } from "../ports/answer.ts";
import { redactorFor } from "../secrets/redact.ts";
import { ProcessKeys, secretsKnownAtStart } from "../secrets/secret-environment.ts";
import {
  type InlineGuard,
  type InlineProvider,
  type InstrumentServices,
  openProvider,
} from "./inline-provider.ts";

export interface InlineDeps {
  files: PackageFiles;
  clock: Clock;
  data_root: string | null;
  services: InstrumentServices | null;
  guard: InlineGuard;
  /** Resolves when no process uses the data folder. */
  waitForProcesses: (folder: string) => Promise<void>;
  log: Logger;
}

interface ProviderEntry {
  readonly key: string;
  readonly binding_id: string;
  readonly provider: Promise<InlineProvider>;
  /** Resolves when the next provider may use the data folder. */
  readonly closed: Promise<void>;
  calls: number;
  close: (() => void) | null;
}

const INITIALIZE_MS = 20_000;
const SHUTDOWN_MS = 5_000;

export class InlineInstruments {
  readonly #deps: InlineDeps;
  readonly #entries = new Map<string, ProviderEntry>();
  /** The newest provider of each data folder, even while it finishes its calls after it was retired. */
  readonly #folders = new Map<string, ProviderEntry>();
  readonly #keys = new ProcessKeys();
  readonly #running = new Map<string, (answer: PluginAnswer) => void>();

  constructor(deps: InlineDeps) {
    this.#deps = deps;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Whether the provider is loaded or being loaded; a request then does not have to load it. */
  serves(request: ProcessRequest): boolean {
    return this.#entries.get(dataKey(request))?.key === this.#keyOf(request);
  }

  async run(request: RunRequest): Promise<RunOutcome> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<PluginAnswer>();
    const { context, invocation_id, timeout_ms } = request;
    const timer = this.#deps.clock.after(timeout_ms, () =>
      stop(failure("timeout", `The plugin did not answer within ${Math.round(timeout_ms)} ms.`)),
    );
    this.#running.set(invocation_id, stop);
    let dispatched = false;
    const call = this.#use(request, async ({ data_dir, plugin }) => {
      if (!this.#running.has(invocation_id)) throw new BackplaneError("cancelled");
      dispatched = true;
      void stopped.then(() => plugin.cancel({ invocationId: invocation_id, reason: "stopped" }));
      const result = await plugin.invoke(invokeParams({ context, id: invocation_id, request }, data_dir));
      return acceptInstrument(result);
    }).catch((error: unknown) => answerFromError(error));
    const answer = await Promise.race([call, stopped]);
    timer.stop();
    this.#running.delete(invocation_id);
    const redactor = redactorFor(context);
    const redact = <T extends object | null>(value: T): T =>
      redactor.active && value !== null ? (redactor.json(value as unknown as Json) as unknown as T) : value;
    return {
      status: answer.status,
      result: redact(answer.result as JsonObject | null),
      error: redact(answer.error),
      violations: 0,
      stderr_tail: null,
      egress: null,
      dispatched,
    };
  }

  async describe(request: DescribeRequest): Promise<Description> {
    return await this.#use(request, async ({ plugin }) =>
      describeInstruments(
        await this.#within(request.timeout_ms, "list its instruments", plugin.list()),
        request.package,
      ),
    ).catch((error: unknown) => {
      throw asBackplaneError(error);
    });
  }

  async healthCheck(request: DescribeRequest, { instrument }: JsonObject): Promise<Json> {
    if (typeof instrument !== "string")
      throw new BackplaneError("request.invalid", "instrument must be a string.");
    return await this.#use(request, async ({ plugin }) => ({
      ...(await this.#within(request.timeout_ms, "answer healthCheck", plugin.healthCheck({ instrument }))),
    }));
  }

  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const stop = this.#running.get(invocation_id);
    const code = reason === "user" ? "cancelled" : "gateway_stopping";
    stop?.({ ...failure(code, new BackplaneError(code).message), status: "cancelled" });
    return stop !== undefined;
  }

  retire(binding_id: string): void {
    for (const entry of this.#entries.values()) if (entry.binding_id === binding_id) this.#retire(entry);
  }

  /** Retires the provider that uses a data folder; resolves when it has shut down. */
  async releaseFolder(folder: string): Promise<void> {
    const owner = this.#folders.get(folder);
    if (owner === undefined) return;
    this.#retire(owner);
    await owner.closed;
  }

  async close(): Promise<void> {
    for (const id of this.#running.keys()) this.cancel(id, "shutdown");
    const entries = [...this.#entries.values()];
    for (const entry of entries) this.#retire(entry);
    await Promise.all(entries.map((entry) => entry.closed));
  }

  async #use<T>(request: ProcessRequest, work: (provider: InlineProvider) => Promise<T>): Promise<T> {
    const entry = this.#entryFor(request);
    entry.calls++;
    try {
      const provider = await entry.provider;
      return await this.#guarded(request, () => work(provider));
    } finally {
      entry.calls--;
      this.#closeIfUnused(entry);
    }
  }

  /**
   * Returns the only provider of the plugin and project. The grants of individual calls do not matter, because nothing
   * confines code here.
   */
  #entryFor(request: ProcessRequest): ProviderEntry {
    const folder = dataKey(request);
    const key = this.#keyOf(request);
    const current = this.#entries.get(folder);
    if (current?.key === key) return current;
    const folder_free = Promise.all([this.releaseFolder(folder), this.#deps.waitForProcesses(folder)]);
    const { promise: closing, resolve: close } = Promise.withResolvers<void>();
    const provider = this.#open(request, folder_free);
    const entry: ProviderEntry = {
      key,
      binding_id: request.binding_id,
      provider,
      closed: closing.then(() => this.#shutDown(request, provider)),
      calls: 0,
      close,
    };
    this.#entries.set(folder, entry);
    this.#folders.set(folder, entry);
    void entry.closed.then(() => {
      if (this.#folders.get(folder) === entry) this.#folders.delete(folder);
    });
    // The next call retries a provider that failed to start.
    provider.catch(() => this.#retire(entry));
    return entry;
  }

  #keyOf(request: ProcessRequest): string {
    const shared = request.pool_key.slice(0, request.pool_key.lastIndexOf("/"));
    return this.#keys.derive(shared, secretsKnownAtStart(request, { secrets_at_start: true }, null));
  }

  async #open(request: ProcessRequest, folder_free: Promise<unknown>): Promise<InlineProvider> {
    const { data_root, files, guard, log, services } = this.#deps;
    await folder_free;
    const image = await files.open(request.package.digest);
    try {
      const data_dir = await makeDataDir(data_root, request);
      const options = { request, image, data_dir, services, guard, log };
      const provider = this.#guarded(request, () => openProvider(options));
      return await this.#within(INITIALIZE_MS, "initialize", provider);
    } catch (error) {
      image.release();
      throw error;
    }
  }

  async #shutDown(request: ProcessRequest, opening: Promise<InlineProvider>): Promise<void> {
    const provider = await opening.catch(() => null);
    if (provider === null) return;
    try {
      await this.#within(
        SHUTDOWN_MS,
        "shut down",
        this.#guarded(request, () => provider.shutDown()),
      );
    } catch (error) {
      this.#deps.log.warn(
        { binding_id: request.binding_id, err: error },
        "instrument plugin did not shut down cleanly",
      );
    }
  }

  /** The provider gets no new calls and shuts down when its current calls have finished. */
  #retire(entry: ProviderEntry): void {
    for (const [folder, candidate] of this.#entries) if (candidate === entry) this.#entries.delete(folder);
    this.#closeIfUnused(entry);
  }

  #closeIfUnused(entry: ProviderEntry): void {
    if (entry.calls > 0 || entry.close === null) return;
    for (const candidate of this.#entries.values()) if (candidate === entry) return;
    entry.close();
    entry.close = null;
  }

  #guarded<T>({ grant, package: { package_id } }: ProcessRequest, work: () => T): T {
    const allowed_domains = grant.network === "none" ? [] : grant.allowed_domains;
    return this.#deps.guard.runAsPlugin({ name: package_id, allowed_domains }, work);
  }

  /** `action` completes the sentence "The plugin did not …". */
  async #within<T>(ms: number, action: string, work: Promise<T>): Promise<T> {
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const timer = this.#deps.clock.after(ms, () =>
      reject(new BackplaneError("timeout", `The plugin did not ${action} within ${ms} ms.`)),
    );
    try {
      return await Promise.race([work, timeout]);
    } finally {
      timer.stop();
    }
  }
}

/** Only class inline is the operator's permission to run a module inside the gateway. */
export function isInline({
  class: isolation,
  package: { runtime },
}: Pick<RunRequest, "class" | "package">): boolean {
  return isolation === "inline" && runtime.protocol === "module.instrument";
}

/** An error without one of our codes is a protocol error. */
function asBackplaneError(error: unknown): BackplaneError {
  if (codeOf(error) !== undefined) return toBackplaneError(error);
  const { message = String(error) } = error as { message?: string };
  return new BackplaneError("plugin_protocol_error", message);
}

function answerFromError(error: unknown): PluginAnswer {
  const { code, message } = asBackplaneError(error);
  return failure(code, message);
}

function failure(code: string, message: string): PluginAnswer {
  return { status: "failed", result: null, error: { code, message } };
}
