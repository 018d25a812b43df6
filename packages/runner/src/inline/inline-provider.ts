/**
 * One instrument provider inside the gateway process, from import to shutdown. It lives as long as one generation of
 * its binding. All generations use the same data folder, so the next provider opens only after this one has shut down.
 */
import {
  BackplaneError,
  codeOf,
  findInstrumentProvider,
  type InstrumentContext,
  type InstrumentLogger,
  type InstrumentMethods,
  type JsonObject,
} from "@backplane/contract";
import type { Logger, PackageImage, ProcessRequest } from "@backplane/ports";
import { InstrumentPlugin } from "@backplane/wire";
import { pluginIdOf } from "../dialects/instruments/describe-instruments.ts";
import { initializeParams } from "../dialects/instruments/instrument-call.ts";
import { type ModuleGraph, openModuleGraph } from "./module-graph.ts";

/** The binding on whose behalf a plugin uses the gateway's models. */
export interface ServiceUser {
  org_id: string;
  project_id: string | null;
  binding_id: string;
  plugin_id: string;
}

/** The gateway's models for plugins in its own process. */
export interface InstrumentServices {
  requestCognition(user: ServiceUser, prompt: string, max_tokens: number): Promise<string>;
  requestEmbedding(user: ServiceUser, text: string): Promise<readonly number[]>;
}

/** Separates plugin code from gateway code in this process, e.g. to check the connections that plugins make. */
export interface InlineGuard {
  runAsPlugin<T>(plugin: { name: string; allowed_domains: readonly string[] }, work: () => T): T;
  runAsGateway<T>(work: () => T): T;
}

export interface ProviderOptions {
  request: ProcessRequest;
  image: PackageImage;
  data_dir: string;
  services: InstrumentServices | null;
  guard: InlineGuard;
  log: Logger;
}

export interface InlineProvider {
  plugin: InstrumentPlugin;
  data_dir: string;
  /** Rejects with the error of the provider's shutdown. */
  shutDown(): Promise<void>;
}

/** Rejects with a BackplaneError. */
export async function openProvider(options: ProviderOptions): Promise<InlineProvider> {
  const { data_dir, image, request } = options;
  const { entrypoint, instrument } = request.package.runtime;
  const [file, name = "default"] = (entrypoint[1] ?? "").split("#") as [string, string?];
  let graph: ModuleGraph | null = null;
  const plugin = new InstrumentPlugin({
    async load() {
      graph = openModuleGraph(image.folder, instrument?.isolation ?? "InProcess");
      const provider = findInstrumentProvider(await graph.import(file), name);
      // The imported files are verified before the plugin gets its configuration.
      await image.check();
      if (typeof provider !== "string") return provider;
      throw new BackplaneError("plugin.invalid", `${entrypoint[1]}: ${provider}.`);
    },
    context: (params) => createContext(params, options),
  });
  const close = () => graph?.close();
  try {
    await plugin.initialize(initializeParams(request, data_dir));
  } catch (error) {
    close();
    throw asLoadFailure(request, error);
  }
  return {
    plugin,
    data_dir,
    async shutDown() {
      try {
        await plugin.shutdown();
      } finally {
        close();
        image.release();
      }
    },
  };
}

function createContext(
  { config, dataDir, heftyVersion, pluginId }: InstrumentMethods["initialize"][0],
  { guard, log, request, services }: ProviderOptions,
): InstrumentContext {
  const { org_id, project_id = null } = request.context;
  const user = { org_id, project_id, binding_id: request.binding_id, plugin_id: pluginId };
  const logAt = (level: keyof InstrumentLogger) => (message: string, fields?: JsonObject) =>
    guard.runAsGateway(() =>
      log[level]({ ...fields, plugin: pluginId, binding_id: request.binding_id }, String(message)),
    );
  const requireServices = (): InstrumentServices => {
    if (services !== null) return services;
    throw new BackplaneError("llm.failed", "This gateway offers no models to plugins.");
  };
  return {
    pluginId,
    dataDir,
    config: Object.freeze({ ...config }),
    heftyVersion,
    logger: { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") },
    requestCognition: async (prompt, maxTokens) =>
      await guard.runAsGateway(() => requireServices().requestCognition(user, prompt, maxTokens)),
    requestEmbedding: async (text) =>
      Float32Array.from(await guard.runAsGateway(() => requireServices().requestEmbedding(user, text))),
  };
}

/** Keeps the message of the author's error. */
function asLoadFailure({ package: pack }: ProcessRequest, error: unknown): BackplaneError {
  const { message = String(error) } = error as { message?: string };
  if (codeOf(error) !== undefined) return error as BackplaneError;
  return new BackplaneError("plugin.invalid", `The plugin ${pluginIdOf(pack)} did not start: ${message}`);
}
