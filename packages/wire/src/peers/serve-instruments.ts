/**
 * Serves an instrument provider over newline-delimited JSON-RPC 2.0 and checks parameters before the author's code
 * runs.
 */
import { isObject, type JsonObject, RPC_ERRORS } from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import type { InstrumentPlugin } from "./instrument-plugin.ts";
import { RpcError, RpcPeer } from "./rpc-peer.ts";

export interface ServeInstrumentsOptions {
  transport: Transport;
  plugin: InstrumentPlugin;
  limits?: Partial<FrameLimits>;
  /** Called after the reply to `shutdown` and when the connection ends, so possibly twice. */
  onEnd: () => void;
}

type Handler = (params: JsonObject) => unknown;

export function serveInstruments({ onEnd, limits, plugin, transport }: ServeInstrumentsOptions): RpcPeer {
  const handlers = createHandlers(plugin, onEnd);
  return new RpcPeer({
    transport,
    ...(limits === undefined ? {} : { limits }),
    async handle(method, params = {}) {
      const handler = handlers.get(method);
      if (handler === undefined) {
        throw new RpcError(RPC_ERRORS.method_not_found, `unknown method ${method.slice(0, 80)}`);
      }
      if (!isObject(params))
        throw new RpcError(RPC_ERRORS.invalid_params, "the parameters must be an object");
      return await handler(params as JsonObject);
    },
    onFailure: onEnd,
  });
}

function createHandlers(plugin: InstrumentPlugin, onEnd: () => void): Map<string, Handler> {
  return new Map<string, Handler>([
    [
      "initialize",
      (params) => {
        requireParams(params, "text", "pluginId", "dataDir", "heftyVersion");
        requireParams(params, "object", "config");
        return plugin.initialize(params as never);
      },
    ],
    ["listInstruments", async () => ({ instruments: (await plugin.list()).instruments })],
    [
      "invoke",
      (params) => {
        requireParams(params, "text", "instrument");
        requireParams(params, "object", "params");
        return plugin.invoke({ activityId: "", sessionId: "", invocationId: "", ...params } as never);
      },
    ],
    [
      "healthCheck",
      (params) => {
        requireParams(params, "text", "instrument");
        return plugin.healthCheck(params as never);
      },
    ],
    [
      "cancel",
      (params) => {
        requireParams(params, "text", "invocationId");
        plugin.cancel({
          invocationId: params.invocationId as string,
          reason: typeof params.reason === "string" ? params.reason : "cancelled",
        });
        return null;
      },
    ],
    [
      "shutdown",
      async () => {
        const result = await plugin.shutdown();
        // The reply must be sent first.
        setImmediate(onEnd);
        return result;
      },
    ],
  ]);
}

function requireParams(params: JsonObject, kind: "text" | "object", ...names: string[]): void {
  const isOfKind = (value: unknown) => (kind === "text" ? typeof value === "string" : isObject(value));
  const invalid = names.find((name) => !isOfKind(params[name]));
  if (invalid === undefined) return;
  throw new RpcError(
    RPC_ERRORS.invalid_params,
    `${invalid} must be ${kind === "text" ? "a string" : "an object"}`,
  );
}
