/**
 * Answers the gateway's calls with the plugin's methods. An error that the plugin throws is returned as a
 * value with its stack; only a call to an unknown method is a protocol error.
 */
import {
  BackplaneError,
  type ContextRef,
  type HostedToolCall,
  type JsonObject,
  type KernelPlugin,
  type KernelTool,
  type KernelToolCall,
  type ModuleHostMethods,
  RPC_ERRORS,
  serializeError,
  THROWN_ERROR,
} from "@backplane/contract";
import { RpcError, RpcPeer, type Transport } from "@backplane/wire";
import { createGatewayLink } from "./gateway-link.ts";
import { describePlugin, loadModule } from "./load-module.ts";
import { createRemoteContext, type RegisteredTools } from "./remote-context.ts";

export interface ServeModuleOptions {
  transport: Transport;
  frame_bytes: number | undefined;
  /** Called when the gateway has closed the pipe or the stream has failed. */
  onEnd: () => void;
}

type Handlers = {
  [M in keyof ModuleHostMethods]: (params: ModuleHostMethods[M][0]) => Promise<ModuleHostMethods[M][1]>;
};

export function serveModule({ transport, frame_bytes, onEnd }: ServeModuleOptions): void {
  const handlers = createHandlers(() => peer);
  const peer = new RpcPeer({
    transport,
    ...(frame_bytes === undefined ? {} : { limits: { frame_bytes } }),
    async handle(method, params) {
      if (!Object.hasOwn(handlers, method))
        throw new RpcError(RPC_ERRORS.method_not_found, `no method ${method}`);
      try {
        return await handlers[method as keyof Handlers](params as never);
      } catch (error) {
        const value = serializeError(error, "with trace");
        throw new RpcError(THROWN_ERROR, value.message, value as unknown as JsonObject);
      }
    },
    onFailure: onEnd,
  });
}

function createHandlers(peer: () => RpcPeer): Handlers {
  const link = createGatewayLink(peer);
  const tools: RegisteredTools = new Map();
  const running = new Map<number, AbortController>();
  let loaded: KernelPlugin | null = null;

  const requirePlugin = (): KernelPlugin => {
    if (loaded === null) throw new BackplaneError("internal", "No plugin has been loaded yet.");
    return loaded;
  };
  const context = (ref: ContextRef) => createRemoteContext(ref, link, tools);
  const getTool = (id: number): KernelTool => {
    const tool = tools.get(id);
    if (tool === undefined) throw new BackplaneError("internal", `There is no tool ${id} in this process.`);
    return tool;
  };

  return {
    async load({ module, name }) {
      loaded = await loadModule(module, name);
      return null;
    },
    describe: async () => describePlugin(requirePlugin()),
    async onLoad({ ctx }) {
      await requirePlugin().onLoad?.(context(ctx));
      return null;
    },
    async event({ event, ctx }) {
      await requirePlugin().onEvent?.(event, context(ctx));
      return null;
    },
    async unload({ ctx }) {
      await requirePlugin().onUnload?.(context(ctx));
      return null;
    },
    health: async ({ ctx }) => await requirePlugin().healthCheck!(context(ctx)),
    request: async ({ request, ctx }) => await requirePlugin().onRequest!(request, context(ctx)),
    brief: async ({ tool, args }) => await getTool(tool).approvalBrief!(args),
    preApprove: async ({ tool, args }) => await getTool(tool).preApprove!(args),
    async tool({ tool, args, call }) {
      const abort = new AbortController();
      running.set(call.call_id, abort);
      try {
        return await getTool(tool).run(args, hostedCall(call, abort.signal));
      } finally {
        running.delete(call.call_id);
      }
    },
    async cancel({ call_id }) {
      running.get(call_id)?.abort(new Error("The call was cancelled."));
      return null;
    },
  };

  function hostedCall({ call_id, ...call }: HostedToolCall, signal: AbortSignal): KernelToolCall {
    return { ...call, signal, progress: (event) => link.notify("progress", { call_id, event }) };
  }
}
