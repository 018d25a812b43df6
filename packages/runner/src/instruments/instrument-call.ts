/** A binding and a call in the words of the instrument protocol; the same for a process and for a module in ours. */
import {
  HEFTY_VERSION,
  type InstrumentInvocation,
  type InstrumentMethods,
  type JsonObject,
} from "@backplane/contract";
import type { Exchange, ProcessOrder } from "../dialects/dialect.ts";
import { pluginIdOf } from "./describe-instruments.ts";

export function initializeParams(order: ProcessOrder, dataDir: string): InstrumentMethods["initialize"][0] {
  const { config, secrets } = order.context;
  return {
    pluginId: pluginIdOf(order.package),
    dataDir,
    // A secret is a setting whose value the operator keeps elsewhere.
    config: { ...flatConfig(config), ...secrets },
    heftyVersion: HEFTY_VERSION,
  };
}

export function invokeParams(
  { context, id, order }: Pick<Exchange, "context" | "id" | "order">,
  dataDir: string,
): InstrumentInvocation {
  const { input } = order.body;
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return {
    instrument: order.export_id,
    params: isObject ? input : {},
    activityId: context.run_id ?? order.tool_call_id ?? order.invocation_id,
    sessionId: context.session_id ?? "",
    traceId: context.trace_id,
    timeoutMs: Math.round(order.timeout_ms),
    dataDirPath: dataDir,
    invocationId: id,
  };
}

/** `{a: {b: 1}}` is `{"a.b": "1"}`; a list is its JSON, and null is no setting. */
function flatConfig(config: JsonObject): Record<string, string> {
  const flat: Record<string, string> = {};
  const walk = (value: JsonObject, prefix: string) => {
    for (const [key, one] of Object.entries(value)) {
      const name = `${prefix}${key}`;
      if (one === null) continue;
      if (typeof one === "object" && !Array.isArray(one)) walk(one, `${name}.`);
      else flat[name] = typeof one === "object" ? JSON.stringify(one) : String(one);
    }
  };
  walk(config, "");
  return flat;
}
