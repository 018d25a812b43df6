/**
 * Requests to MCP servers for which the policy requires approval. Such a request runs as an invocation of the core tool
 * `server_request` on behalf of the caller, so that it is approved and recorded like any other call. The server gets
 * nothing before the approval. Models are not offered the tool, and it runs only requests that the gateway received
 * from a client that is still waiting. As with any resource, the content that was read is not recorded.
 */

import {
  BackplaneError,
  type ErrorCode,
  type Json,
  type JsonObject,
  type ToolReturn,
  toBackplaneError,
} from "@backplane/contract";
import {
  coreBindingId,
  createCoreTool,
  type Door,
  invoke,
  noBrief,
  REQUEST_TOOL,
  stopCall,
} from "@backplane/door";
import type { Caller, KernelDeps, RegisteredTool, ServerRequestListener } from "@backplane/ports";

/** How long a server may take to answer one request. */
export const REQUEST_MS = 120_000;

/** Requests in flight by id. Each function sends its request and resolves to the number of characters of the answer. */
type PendingRequests = Map<string, () => Promise<number>>;

interface RequestForApproval {
  binding_id: string;
  package_id: string;
  method: string;
  params: JsonObject;
  /** Why the policy requires an approval. */
  why: string;
}

/** Rejects if the approver or the policy refuses the request, or with the error of the server. */
export type SendApprovedRequest = (
  caller: Caller,
  details: RequestForApproval,
  listener: Pick<ServerRequestListener, "waiting" | "signal">,
  request: () => Promise<Json>,
) => Promise<Json>;

export function createApprovedRequest(door: Door): {
  sendApprovedRequest: SendApprovedRequest;
  tool: RegisteredTool;
} {
  const pending: PendingRequests = new Map();
  const sendApprovedRequest: SendApprovedRequest = async (
    caller,
    { binding_id, package_id, method, params, why },
    listener,
    request,
  ) => {
    const request_id = door.deps.ids.next("request");
    // The answer goes only to the client, so it bypasses the invocation and its record.
    let outcome: { answer: Json } | { error: unknown } | null = null;
    pending.set(request_id, async () => {
      try {
        const answer = await request();
        outcome = { answer };
        return JSON.stringify(answer).length;
      } catch (error) {
        outcome = { error };
        throw error;
      }
    });
    try {
      const asked = { ...params, method };
      const input = { asked, for_binding: binding_id, request_id, server: package_id, why };
      const body = { binding_id: coreBindingId(REQUEST_TOOL), input };
      const ticket = await invoke(door, { caller, context: "conversation", body });
      const { id, approval_id } = ticket.invocation;
      if (approval_id !== null) listener.waiting?.({ id, approval_id });
      const settled_call = await waitForSettlement(door, id, ticket.settled, listener.signal);
      return unwrapAnswer(outcome, settled_call.error);
    } finally {
      pending.delete(request_id);
    }
  };
  return { sendApprovedRequest, tool: createRequestTool(door.deps, pending) };
}

/** Resolves when the call has settled. Stops the call when the client disconnects. */
async function waitForSettlement<T>(
  door: Door,
  id: string,
  settled: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const stop = () => {
    const live = door.live.get(id);
    if (live !== undefined) stopCall(door, live, "user");
  };
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  try {
    return await settled;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

function unwrapAnswer(
  outcome: { answer: Json } | { error: unknown } | null,
  error: { code: string; message: string } | null,
): Json {
  if (error !== null) throw new BackplaneError(error.code as ErrorCode, error.message);
  if (outcome === null)
    throw new BackplaneError("plugin_failed", "The request ended before it was sent to the server.");
  if ("error" in outcome) throw outcome.error;
  return outcome.answer;
}

function createRequestTool(deps: Pick<KernelDeps, "version">, pending: PendingRequests): RegisteredTool {
  return createCoreTool(deps.version ?? "0.0.0", {
    spec: {
      name: REQUEST_TOOL,
      description: "Reads a resource or gets a prompt from an MCP server for a client, after approval.",
      parameters: {
        type: "object",
        properties: {
          asked: { type: "object" },
          for_binding: { type: "string" },
          request_id: { type: "string" },
          server: { type: "string" },
          why: { type: "string" },
        },
        required: ["asked", "for_binding", "request_id", "server", "why"],
      },
      effect_class: "read_only",
      risk: "low",
      requires_approval: true,
      timeout_ms: REQUEST_MS,
    },
    brief: noBrief,
    run: async (args): Promise<ToolReturn> => {
      const send = pending.get(args.request_id as string);
      if (send === undefined) return toFailedReturn("the client is no longer waiting for this request");
      try {
        const characters = await send();
        return {
          ok: true,
          brief: `${characters} characters`,
          display: { kind: "json", data: { characters } },
        };
      } catch (error) {
        return toFailedReturn(toBackplaneError(error).message);
      }
    },
  });
}

function toFailedReturn(text: string): ToolReturn {
  return { ok: false, kind: "validation", brief: text, display: { kind: "text", text } };
}
