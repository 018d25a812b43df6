/** Requests other than tool calls to the MCP servers of bindings: resources, prompts, completion. */
import type { Json, JsonObject } from "@backplane/contract";
import type { ServerProcess } from "../host/runner.ts";
import type { Caller } from "../scope/scope.ts";
import type { AnswerPluginRequest } from "./plugin-requests.ts";

export interface ServerInfo {
  /** The name used in the names of its tools: `mcp_<name>_<tool>`. */
  name: string;
  binding_id: string;
  package_id: string;
  /** The capabilities that the server declared. */
  capabilities: JsonObject;
  instructions: string | null;
  /** The server's tool names with their export ids in the catalog. */
  tools: readonly { name: string; export_id: string }[];
}

/** Receives the server's notifications and questions until the request is answered. */
export interface ServerRequestListener {
  notify(method: string, params: JsonObject): void;
  answerRequest: AnswerPluginRequest;
  /** Called when the request awaits approval. */
  waiting?(call: { id: string; approval_id: string }): void;
  /** Cancels the wait for an approval, and the request to the server. */
  signal?: AbortSignal;
}

/** A notification that a server sent outside any request. */
export interface ServerNotification {
  binding_id: string;
  /** The project of the server's process; the notification is for this project only. */
  project_id: string | null;
  method: string;
  params: JsonObject;
}

export interface Servers {
  /**
   * Lists the project's own servers before those of the org. If two servers have the same name, the second gets a
   * number as a suffix; if two offer the same resource URI, the first serves it. Returns the same array while the list
   * is unchanged, unless the policy hides capabilities from the caller. Empty for a delegated caller, and if the policy
   * denies the caller MCP tools.
   */
  list(caller: Caller): Promise<readonly ServerInfo[]>;
  /**
   * Throws binding.not_found for a server that the caller may not see. A server's own error keeps its JSON-RPC code.
   */
  request(
    caller: Caller,
    binding_id: string,
    method: string,
    params: JsonObject,
    listener: ServerRequestListener,
  ): Promise<Json>;
  /** Checks and records a request as `request` would, without sending it. Rejects a forbidden request. */
  check(caller: Caller, binding_id: string, method: string, params: JsonObject): Promise<void>;
  /**
   * Delivers the notifications of all servers. A listener that forwards them has to check the project, and has to use
   * `list` to check that the recipient may see the binding. Returns an unsubscribe function.
   */
  onNotification(listener: (notification: ServerNotification) => void): () => void;
  /** The server processes of all tenants on this node, with their memory. Only the host's admin may see them. */
  listProcesses(): Promise<ServerProcess[]>;
}
