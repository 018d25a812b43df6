/**
 * The context of a provider in External mode. Log messages are written to stderr, which the gateway records.
 * Cognition and embedding are rejected, because a separate process cannot reach the gateway's models
 * (instr.external.limits).
 */
import type { InstrumentContext, InstrumentLogger, InstrumentMethods, JsonObject } from "@backplane/contract";

export function createExternalContext(
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
    requestCognition: () => rejectUnsupported("requestCognition"),
    requestEmbedding: () => rejectUnsupported("requestEmbedding"),
  };
}

function rejectUnsupported(method: string): Promise<never> {
  const error = new Error(
    `${method} is not available in External mode; install the plugin as InProcess or ClassLoaderIsolated and trust it.`,
  );
  return Promise.reject(
    Object.assign(error, { name: "UnsupportedOperationError", code: "UnsupportedOperation" }),
  );
}
