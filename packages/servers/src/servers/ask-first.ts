/**
 * A request to an MCP server about which a person is asked first: an invocation of the core tool `server_request` in the
 * caller's name, so that question, answer and record are those of any call. The server hears nothing before the yes.
 */

import { BackplaneError, type ErrorCode, type Json, type JsonObject } from "@backplane/contract";
import { coreBindingId, type Door, invoke, REQUEST_TOOL, stopCall } from "@backplane/door";
import type { Caller, RegisteredTool, ServerLine } from "@backplane/ports";
import { createRequestTool } from "./request-tool.ts";

interface ServerQuestion {
  binding_id: string;
  package_id: string;
  method: string;
  params: JsonObject;
  /** What the policy says. */
  why: string;
}

/** Rejects with what the person, the policy or the server said. */
export type ApprovedRequest = (
  caller: Caller,
  question: ServerQuestion,
  line: Pick<ServerLine, "waiting" | "signal">,
  request: () => Promise<Json>,
) => Promise<Json>;

export function createApprovedRequest(door: Door): {
  approvedRequest: ApprovedRequest;
  tool: RegisteredTool;
} {
  /** What the tool does for each request that is under way. */
  const open = new Map<string, () => Promise<number>>();
  const approvedRequest: ApprovedRequest = async (
    caller,
    { binding_id, package_id, method, params, why },
    line,
    request,
  ) => {
    const request_id = door.deps.ids.next("request");
    // What came back goes to the client whole, and only there.
    let came: { answer: Json } | { error: unknown } | null = null;
    open.set(request_id, async () => {
      try {
        const answer = await request();
        came = { answer };
        return JSON.stringify(answer).length;
      } catch (error) {
        came = { error };
        throw error;
      }
    });
    try {
      const asked = { ...params, method };
      const input = { asked, for_binding: binding_id, request_id, server: package_id, why };
      const body = { binding_id: coreBindingId(REQUEST_TOOL), input };
      const ticket = await invoke(door, { caller, context: "conversation", body });
      const { id, approval_id } = ticket.invocation;
      if (approval_id !== null) line.waiting?.({ id, approval_id });
      const ended = await untilSettled(door, id, ticket.settled, line.signal);
      return answerOf(came, ended.error);
    } finally {
      open.delete(request_id);
    }
  };
  return { approvedRequest, tool: createRequestTool(door.deps, open) };
}

/** A client that is gone wants no answer any more. */
async function untilSettled<T>(
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

function answerOf(
  came: { answer: Json } | { error: unknown } | null,
  error: { code: string; message: string } | null,
): Json {
  if (error !== null) throw new BackplaneError(error.code as ErrorCode, error.message);
  if (came === null) throw new BackplaneError("plugin_failed", "the server was not asked");
  if ("error" in came) throw came.error;
  return came.answer;
}
