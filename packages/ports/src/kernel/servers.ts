/** What the edges may ask of the MCP servers behind bindings, beyond their tools: resources, prompts, completion. */
import type { Json, JsonObject } from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";
import type { AnswerPluginRequest } from "./plugin-requests.ts";

export interface ServerInfo {
  /** As the names of its tools carry it: `mcp_<name>_<tool>`. */
  name: string;
  binding_id: string;
  package_id: string;
  /** As the server told them. */
  capabilities: JsonObject;
  instructions: string | null;
  /** Its tools by its own names, with the ids that the catalog has them under. */
  tools: readonly { name: string; export_id: string }[];
}

/** Who made a request hears what the server tells and asks until it is answered. */
export interface ServerLine {
  notify(method: string, params: JsonObject): void;
  ask: AnswerPluginRequest;
  /** A person is asked first. */
  waiting?(call: { id: string; approval_id: string }): void;
  /** Aborted, nobody wants the answer any more. */
  signal?: AbortSignal;
}

/** What a server tells outside of any request. */
export interface ServerNotice {
  binding_id: string;
  /** Whose process it is, and whom its words are for. */
  project_id: string | null;
  method: string;
  params: JsonObject;
}

export interface Servers {
  /**
   * A project's own first, then as they were bound: of two the first has a name or an address. The same array as long
   * as nothing has changed on this node. None where the policy allows the caller no tools of MCP servers.
   */
  list(caller: Caller): Promise<readonly ServerInfo[]>;
  /** Throws binding.not_found for a server that the caller may not see; a server's own error has its JSON-RPC code. */
  request(
    caller: Caller,
    binding_id: string,
    method: string,
    params: JsonObject,
    line: ServerLine,
  ): Promise<Json>;
  /** Whether the caller may make such a request, as `request` would refuse and record it; the server hears nothing. */
  check(caller: Caller, binding_id: string, method: string, params: JsonObject): Promise<void>;
  /** Everybody's notices: who passes them on looks at the project, and asks `list` who may see the binding. Answers how to stop. */
  onNotice(listener: (notice: ServerNotice) => void): () => void;
}
