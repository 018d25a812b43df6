/**
 * Answers requests from a hosted plugin with the context that the kernel created. The process is untrusted: the types
 * of the parameters are checked, and stack traces of the gateway are not returned.
 */
import {
  BackplaneError,
  isObject,
  type JsonObject,
  KERNEL_TOOL_FIELDS,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  findKernelToolProblem,
  type ModuleContextMethods,
  type PluginLogLevel,
  RPC_ERRORS,
  serializeError,
  THROWN_ERROR,
} from "@backplane/contract";
import { RpcError } from "@backplane/wire";
import type { LiveContexts } from "./live-contexts.ts";
import type { ToolMethods } from "./plugin-proxy.ts";
import type { ReceivedSecrets } from "./received-secrets.ts";

export interface PluginRequestContext {
  contexts: LiveContexts;
  secrets: ReceivedSecrets;
  /** Running tool calls by the number that the process uses. */
  calls: ReadonlyMap<number, KernelToolCall>;
  /** Creates the kernel's view of a tool in the process. */
  proxyTool: (id: number, spec: KernelToolSpec, methods: ToolMethods) => KernelTool;
}

type Params = Record<string, unknown>;
type Handlers = Record<keyof ModuleContextMethods, (params: Params) => unknown>;

const LEVELS = ["debug", "info", "warn", "error"];

export function answerPlugin(
  parts: PluginRequestContext,
): (method: string, params: unknown) => Promise<unknown> {
  const handlers = createHandlers(parts);
  return async (method, params) => {
    if (!Object.hasOwn(handlers, method))
      throw new RpcError(RPC_ERRORS.method_not_found, `There is no method ${method}.`);
    if (!isObject(params))
      throw new RpcError(RPC_ERRORS.invalid_params, `The parameters of ${method} must be an object.`);
    try {
      return await handlers[method as keyof Handlers](params);
    } catch (error) {
      if (typeof (error as { rpcCode?: unknown } | null)?.rpcCode === "number") throw error;
      const value = serializeError(error, "without trace");
      throw new RpcError(THROWN_ERROR, value.message, value as unknown as JsonObject);
    }
  };
}

function createHandlers({ contexts, secrets, calls, proxyTool }: PluginRequestContext): Handlers {
  const findContext = (params: Params) => contexts.find(params.ctx);
  return {
    emit: (params) =>
      findContext(params).emit(requireText(params, "kind"), requireObject(params, "payload") as never, {
        session_id: requireText(params, "session_id"),
        ...(params.as === undefined ? {} : { as: requireText(params, "as") }),
      }),
    log(params) {
      const level = requireText(params, "level");
      if (!LEVELS.includes(level)) throw invalid("level");
      findContext(params).log[level as PluginLogLevel](
        requireObject(params, "fields"),
        requireText(params, "message"),
      );
    },
    config: async (params) => secrets.rememberConfig(await findContext(params).config()),
    "providers.list": async (params) =>
      secrets.rememberInstances(await findContext(params).providers.listInstances()),
    "providers.for_plugin": async (params) =>
      secrets.rememberInstances(
        await findContext(params).providers.instancesForPlugin(requireText(params, "plugin")),
      ),
    "providers.get": async (params) => {
      const instance = await findContext(params).providers.getInstance(requireText(params, "id"));
      if (instance !== null) secrets.rememberInstances([instance]);
      return instance;
    },
    "providers.active": (params) => findContext(params).providers.activeId(),
    registerTool(params) {
      const { tool } = params;
      if (typeof tool !== "number") throw invalid("tool");
      return findContext(params).registerTool(
        proxyTool(tool, readSpec(requireObject(params, "spec")), {
          brief: params.brief === true,
          pre_approve: params.pre_approve === true,
        }),
      );
    },
    service: (params) =>
      findContext(params).service(
        requireText(params, "name"),
        requireObject(params, "args"),
        params.as === undefined ? undefined : requireText(params, "as"),
      ),
    progress(params) {
      const event = requireObject(params, "event");
      requireText(event, "type");
      // Progress of a finished call is dropped.
      calls.get(params.call_id as number)?.progress(event as JsonObject & { type: string });
    },
  };
}

function readSpec(value: JsonObject): KernelToolSpec {
  const problem = findKernelToolProblem(value);
  if (problem !== null) {
    throw new BackplaneError("plugin.invalid", problem, {
      fix: "Correct the tool that the plugin registers.",
    });
  }
  const fields = KERNEL_TOOL_FIELDS.filter((field) => value[field] !== undefined);
  return Object.fromEntries(fields.map((field) => [field, value[field]])) as unknown as KernelToolSpec;
}

function requireText(params: Params, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw invalid(name);
  return value;
}

function requireObject(params: Params, name: string): JsonObject {
  const value = params[name];
  if (!isObject(value)) throw invalid(name);
  return value;
}

function invalid(name: string): RpcError {
  return new RpcError(RPC_ERRORS.invalid_params, `The parameter ${name} has the wrong type.`);
}
