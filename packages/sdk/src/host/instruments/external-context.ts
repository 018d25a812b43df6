/**
 * The context of a provider in External mode. Its log is stderr, which the gateway keeps. Cognition and
 * embedding are refused, because a separate process cannot reach the gateway's models
 * (instr.external.limits).
 */
import type { InstrumentContext, InstrumentLogger, InstrumentMethods, JsonObject } from "@backplane/contract";

export function externalContext(
  params: InstrumentMethods["initialize"][0],
  write: (line: string) => void,
): InstrumentContext {
  const { config, dataDir, heftyVersion, pluginId } = params;
  const log = (level: keyof InstrumentLogger) => (message: string, fields?: JsonObject) =>
    write(`${level} [${pluginId}] ${message}${fields === undefined ? "" : ` ${JSON.stringify(fields)}`}\n`);
  return {
    pluginId,
    dataDir,
    config: Object.freeze({ ...config }),
    heftyVersion,
    logger: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    requestCognition: () => refuse("requestCognition"),
    requestEmbedding: () => refuse("requestEmbedding"),
  };
}

function refuse(problem: string): Promise<never> {
  const error = new Error(
    `${problem} is not available in External mode; install the plugin as InProcess or ClassLoaderIsolated and trust it.`,
  );
  return Promise.reject(
    Object.assign(error, { name: "UnsupportedOperationError", code: "UnsupportedOperation" }),
  );
}
