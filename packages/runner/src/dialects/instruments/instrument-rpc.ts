/**
 * `hefty.jsonrpc`: an instrument plugin in a process of its own, newline-delimited JSON-RPC 2.0, long-lived. The program
 * is the plugin's own, or our ready host for a module. It has one folder that lasts, so two of its processes never run
 * beside each other.
 */
import { BackplaneError, JAVA_HOST, type Json, type JsonObject, READY_HOST } from "@backplane/contract";
import type { Description } from "@backplane/ports";
import { InstrumentHost } from "@backplane/wire";
import type {
  Dialect,
  DialectLaunch,
  Exchange,
  HostPrograms,
  Link,
  ProcessOrder,
  Session,
} from "../../ports/dialect.ts";
import { findOrBuildJavaHost, JAVA_HOST_CLASS } from "../../programs/java-host.ts";
import { describeInstruments } from "./describe-instruments.ts";
import { acceptInstrument, initializeParams, invokeParams } from "./instrument-call.ts";

const HOST_INSIDE = "/sandbox/instrument-host.mjs";
const JAVA_HOST_INSIDE = "/sandbox/instrument-host.jar";
const DATA_INSIDE = "/sandbox/data";
/** A virtual machine that starts, and a plugin that opens its connections. */
const INITIALIZE_MS = 20_000;
const LIST_MS = 10_000;
const HEALTH_MS = 5_000;

export const instrumentRpc: Dialect = {
  protocol: "hefty.jsonrpc",
  lifetime: "pooled",
  resident: true,
  keeps_data: true,
  secrets_at_start: true,
  refuses: (order) =>
    order.op === "tool.invoke"
      ? null
      : `Instruments are tools only, and ${order.export_id} is called with ${order.op}.`,
  async launch(order, { confined, dataDir, programs }): Promise<DialectLaunch> {
    const data = await dataDir();
    const { entrypoint, env } = order.package.runtime;
    const binds = [{ source: data, target: DATA_INSIDE, writable: true }];
    const data_dir = confined ? DATA_INSIDE : data;
    if (entrypoint[0] === JAVA_HOST) {
      const jar = await javaHost(programs);
      return {
        entrypoint: javaCommand(confined ? JAVA_HOST_INSIDE : jar, entrypoint[1] ?? ""),
        env,
        binds: [...binds, { source: jar, target: JAVA_HOST_INSIDE, writable: false }],
        data_dir,
      };
    }
    const module = moduleOf(order);
    if (module === null) return { entrypoint, env, binds, data_dir };
    if (programs.instruments === undefined) {
      throw new BackplaneError("launch_failed", "This installation has no program that hosts instruments.", {
        fix: "Build it: npm run build",
      });
    }
    const instruments = programs.ownCopy?.(programs.instruments) ?? programs.instruments;
    return {
      entrypoint: ["node", confined ? HOST_INSIDE : instruments, module],
      env,
      binds: [...binds, { source: instruments, target: HOST_INSIDE, writable: false }],
      data_dir,
    };
  },
  connect: (link) => new InstrumentSession(link),
};

/** The same for a module that would run in the gateway, where the operator put it into a process instead. */
export const instrumentModule: Dialect = { ...instrumentRpc, protocol: "module.instrument" };

/** The plugin's own classes and libraries come after the host's, which nobody may replace. */
function javaCommand(jar: string, provider: string): string[] {
  return ["java", "-cp", `${jar}:.:lib/*`, JAVA_HOST_CLASS, provider];
}

async function javaHost({ java_instruments, ownCopy }: HostPrograms): Promise<string> {
  if (java_instruments !== undefined) {
    const jar = await findOrBuildJavaHost(java_instruments);
    return ownCopy?.(jar) ?? jar;
  }
  throw new BackplaneError("launch_failed", "This installation has no ready host for Java.");
}

function moduleOf({ package: { runtime } }: ProcessOrder): string | null {
  const [program, reference = ""] = runtime.entrypoint;
  return program === READY_HOST || runtime.protocol === "module.instrument" ? reference : null;
}

class InstrumentSession implements Session {
  readonly #link: Link;
  readonly #host: InstrumentHost;
  readonly #dataDir: string;

  constructor(link: Link) {
    this.#link = link;
    this.#dataDir = link.data_dir ?? "";
    this.#host = new InstrumentHost({
      transport: link.transport,
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      after: (ms, run) => link.after(ms, run),
      onViolation: (kind) => link.violation(kind),
      onFailure: (error) => link.failure(error),
    });
  }

  async open(): Promise<void> {
    const { order } = this.#link;
    if (order === null) throw new BackplaneError("internal", "An instrument plugin belongs to a binding.");
    await this.#host.initialize(initializeParams(order, this.#dataDir), INITIALIZE_MS);
  }

  async describe(): Promise<Description> {
    return describeInstruments(await this.#host.listInstruments(LIST_MS), this.#link.order!.package);
  }

  async request(method: string, params: JsonObject): Promise<Json> {
    const { instrument } = params;
    if (method !== "healthCheck" || typeof instrument !== "string") {
      throw new BackplaneError("request.invalid", `an instrument plugin has no answer to ${method}`);
    }
    return { ...(await this.#host.healthCheck(instrument, HEALTH_MS)) };
  }

  call(exchange: Exchange): void {
    exchange.sent();
    this.#host.invoke(invokeParams(exchange, this.#dataDir)).then(
      (result) => exchange.answered(acceptInstrument(result)),
      (error: BackplaneError) => exchange.broke(error),
    );
  }

  cancel(id: string, reason: string): boolean {
    this.#host.cancel(id, reason);
    return true;
  }

  abandon(): void {}

  /** The end of its input is the second sign, for a plugin that does not know the first. */
  shutdown(): void {
    void this.#host.shutdown().then(() => this.#link.transport.close());
  }

  verdict(): null {
    return null;
  }
}
