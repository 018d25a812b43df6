/**
 * `hefty.jsonrpc`: an instrument plugin in its own long-lived process, over newline-delimited JSON-RPC 2.0. The
 * program is the plugin's own, or our host program for modules or for Java. The plugin has a persistent data folder, so
 * no two processes of one data folder run at the same time.
 */
import {
  BackplaneError,
  INSTRUMENT_MODULE_HOST,
  JAVA_HOST,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { Description, ProcessRequest } from "@backplane/ports";
import { InstrumentHost } from "@backplane/wire";
import { clipMessage } from "../../ports/answer.ts";
import type {
  Dialect,
  DialectCall,
  DialectLaunch,
  DialectSession,
  HostPrograms,
  ProcessLink,
} from "../../ports/dialect.ts";
import { findOrBuildJavaHost, JAVA_HOST_CLASS } from "../../programs/java-host.ts";
import { describeInstruments } from "./describe-instruments.ts";
import { acceptInstrument, initializeParams, invokeParams } from "./instrument-call.ts";

const HOST_INSIDE = "/sandbox/instrument-host.mjs";
const JAVA_HOST_INSIDE = "/sandbox/instrument-host.jar";
const DATA_INSIDE = "/sandbox/data";
/** Covers the start of a Java virtual machine and connections that the plugin opens. */
const INITIALIZE_MS = 20_000;
const LIST_MS = 10_000;
const HEALTH_MS = 5_000;

export const instrumentRpc: Dialect = {
  protocol: "hefty.jsonrpc",
  lifetime: "pooled",
  resident: true,
  keeps_data: true,
  secrets_at_start: true,
  unsupportedReason: (request) =>
    request.op === "tool.invoke"
      ? null
      : `Instruments support only tools, but ${request.export_id} was called with ${request.op}.`,
  async launch(request, { confined, dataDir, programs }): Promise<DialectLaunch> {
    const data = await dataDir();
    const { entrypoint, env } = request.package.runtime;
    const binds = [{ source: data, target: DATA_INSIDE, writable: true }];
    const data_dir = confined ? DATA_INSIDE : data;
    if (entrypoint[0] === JAVA_HOST) {
      const jar = await prepareJavaHost(programs);
      return {
        entrypoint: javaCommand(confined ? JAVA_HOST_INSIDE : jar, entrypoint[1] ?? ""),
        env,
        binds: [...binds, { source: jar, target: JAVA_HOST_INSIDE, writable: false }],
        data_dir,
      };
    }
    const module = moduleOf(request);
    if (module === null) return { entrypoint, env, binds, data_dir };
    if (programs.instruments === undefined) {
      throw new BackplaneError("launch_failed", "This installation has no host program for instruments.", {
        fix: "Build it: npm run build",
      });
    }
    const instruments = programs.privateCopy?.(programs.instruments) ?? programs.instruments;
    return {
      entrypoint: ["node", confined ? HOST_INSIDE : instruments, module],
      env,
      binds: [...binds, { source: instruments, target: HOST_INSIDE, writable: false }],
      data_dir,
    };
  },
  connect: (link) => new InstrumentSession(link),
};

/** The same dialect for a module that could run inside the gateway but was placed in a process by the operator. */
export const instrumentModule: Dialect = { ...instrumentRpc, protocol: "module.instrument" };

/** The plugin's classes come after those of the host, so that the plugin cannot replace the host's. */
function javaCommand(jar: string, provider: string): string[] {
  return ["java", "-cp", `${jar}:.:lib/*`, JAVA_HOST_CLASS, provider];
}

async function prepareJavaHost({ java_instruments, privateCopy }: HostPrograms): Promise<string> {
  if (java_instruments !== undefined) {
    const jar = await findOrBuildJavaHost(java_instruments);
    return privateCopy?.(jar) ?? jar;
  }
  throw new BackplaneError("launch_failed", "This installation has no host program for Java instruments.");
}

function moduleOf({ package: { runtime } }: ProcessRequest): string | null {
  const [program, reference = ""] = runtime.entrypoint;
  return program === INSTRUMENT_MODULE_HOST || runtime.protocol === "module.instrument" ? reference : null;
}

class InstrumentSession implements DialectSession {
  readonly #link: ProcessLink;
  readonly #host: InstrumentHost;
  readonly #data_dir: string;

  constructor(link: ProcessLink) {
    this.#link = link;
    this.#data_dir = link.data_dir ?? "";
    this.#host = new InstrumentHost({
      transport: link.transport,
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      after: (ms, run) => link.after(ms, run),
      onViolation: (kind) => link.reportViolation(kind),
      onFailure: (error) => link.reportFailure(error),
    });
  }

  async open(): Promise<void> {
    const { request } = this.#link;
    if (request === null) throw new BackplaneError("internal", "An instrument plugin requires a binding.");
    await this.#host.initialize(initializeParams(request, this.#data_dir), INITIALIZE_MS);
  }

  async describe(): Promise<Description> {
    return describeInstruments(await this.#host.listInstruments(LIST_MS), this.#link.request!.package);
  }

  async probe(): Promise<void> {
    const { instruments } = await this.#host.listInstruments(LIST_MS);
    for (const { name } of instruments) {
      const { status, message } = await this.#host.healthCheck(name, HEALTH_MS);
      if (status === "Unhealthy")
        throw new BackplaneError(
          "handshake_failed",
          `The instrument ${name} is unhealthy${message === undefined ? "" : `: ${clipMessage(message)}`}.`,
        );
    }
  }

  async request(method: string, params: JsonObject): Promise<Json> {
    const { instrument } = params;
    if (method !== "healthCheck" || typeof instrument !== "string") {
      throw new BackplaneError("request.invalid", `Instrument plugins do not support ${method}.`);
    }
    return { ...(await this.#host.healthCheck(instrument, HEALTH_MS)) };
  }

  call(call: DialectCall): void {
    call.sent();
    this.#host.invoke(invokeParams(call, this.#data_dir)).then(
      (result) => call.answered(acceptInstrument(result)),
      (error: BackplaneError) => call.failed(error),
    );
  }

  cancel(id: string, reason: string): boolean {
    this.#host.cancel(id, reason);
    return true;
  }

  abandon(): void {}

  /** Closes stdin after the answer to the shutdown request, for plugins that answer it but do not exit. */
  shutdown(): void {
    void this.#host.shutdown().then(() => this.#link.transport.close());
  }

  trailingOutputError(): null {
    return null;
  }
}
