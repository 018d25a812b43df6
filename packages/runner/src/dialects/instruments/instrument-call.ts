/**
 * Parameters and results of the instrument protocol, for a plugin in its own process and for one inside the gateway.
 */
import {
  HEFTY_VERSION,
  type InstrumentInvocation,
  type InstrumentMethods,
  type InstrumentReturn,
  isObject,
  type JsonObject,
} from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";
import { clipMessage, type PluginAnswer } from "../../ports/answer.ts";
import type { DialectCall } from "../../ports/dialect.ts";
import { pluginIdOf } from "./describe-instruments.ts";

export function initializeParams(
  request: ProcessRequest,
  data_dir: string,
): InstrumentMethods["initialize"][0] {
  const { config, secrets } = request.context;
  return {
    pluginId: pluginIdOf(request.package),
    dataDir: data_dir,
    // The protocol has no field for secrets, so they are passed as settings.
    config: { ...flattenConfig(config), ...secrets },
    heftyVersion: HEFTY_VERSION,
  };
}

export function invokeParams(
  { context, id, request }: Pick<DialectCall, "context" | "id" | "request">,
  data_dir: string,
): InstrumentInvocation {
  const { input } = request.body;
  return {
    instrument: request.export_id,
    params: isObject(input) ? input : {},
    activityId: context.run_id ?? request.tool_call_id ?? request.invocation_id,
    sessionId: context.session_id ?? "",
    traceId: context.trace_id,
    timeoutMs: Math.round(request.timeout_ms),
    dataDirPath: data_dir,
    invocationId: id,
  };
}

/** Flattens `{a: {b: 1}}` to `{"a.b": "1"}`. A list becomes its JSON text; null is left out. */
function flattenConfig(config: JsonObject): Record<string, string> {
  const flat: Record<string, string> = {};
  const walk = (value: JsonObject, prefix: string) => {
    for (const [key, setting] of Object.entries(value)) {
      const name = `${prefix}${key}`;
      if (setting === null) continue;
      if (typeof setting === "object" && !Array.isArray(setting)) walk(setting, `${name}.`);
      else flat[name] = typeof setting === "object" ? JSON.stringify(setting) : String(setting);
    }
  };
  walk(config, "");
  return flat;
}

/** The code with which our host programs report a result that is not valid JSON or breaks the protocol. */
const MALFORMED_RESULT = "MALFORMED_RESULT";

/** Converts stdout and stderr, or any other data as JSON, to text for the model. A failed call keeps its output. */
export function acceptInstrument({ data, error, status }: InstrumentReturn): PluginAnswer {
  const output = isObject(data) ? data : {};
  const is_stdio = typeof output.stdout === "string" || typeof output.stderr === "string";
  const texts = is_stdio
    ? [output.stdout, output.stderr]
    : [typeof data === "string" ? data : JSON.stringify(data)];
  const content = texts.flatMap((text) =>
    typeof text === "string" && text !== "" && text !== "null" ? [{ type: "text", text }] : [],
  );
  const result: JsonObject = { content, structured_output: data ?? null, is_error: status === "Error" };
  if (status === "Success") return { status: "succeeded", result, error: null };
  const { code = "ERROR", details, message = "The instrument failed." } = error ?? {};
  return {
    status: "failed",
    result,
    error: {
      code: code === MALFORMED_RESULT ? "malformed_response" : "plugin_failed",
      message: clipMessage(message),
      details: {
        plugin_code: clipMessage(code),
        ...(details === undefined || details === null ? {} : { details }),
      },
    },
  };
}
