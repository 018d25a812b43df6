/**
 * `server_request`: what a client wants of an MCP server beyond its tools, where the policy asks a person first. It is a
 * core tool so that the one door records it, asks and waits; models are not offered it, and it does nothing but what the
 * gateway itself has taken from a client that still waits. What was read is not on its record, as for any resource.
 */

import { type ToolReturn, toBackplaneError } from "@backplane/contract";
import { coreTool, noBrief, REQUEST_TOOL } from "@backplane/door";
import type { KernelDeps, RegisteredTool } from "@backplane/ports";

/** How long a server has for one request. */
export const REQUEST_MS = 120_000;

/** Requests under way, by their ids; each resolves with how many characters came back. */
export type OpenRequests = ReadonlyMap<string, () => Promise<number>>;

export function createRequestTool(deps: Pick<KernelDeps, "version">, open: OpenRequests): RegisteredTool {
  return coreTool(deps.version ?? "0.0.0", {
    spec: {
      name: REQUEST_TOOL,
      description: "Reads a resource or gets a prompt of an MCP server for a client, after a person's yes.",
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
      const ask = open.get(args.request_id as string);
      if (ask === undefined) return refused("no client waits for it");
      try {
        const characters = await ask();
        return {
          ok: true,
          brief: `${characters} characters`,
          display: { kind: "json", data: { characters } },
        };
      } catch (error) {
        return refused(toBackplaneError(error).message);
      }
    },
  });
}

function refused(text: string): ToolReturn {
  return { ok: false, kind: "validation", brief: text, display: { kind: "text", text } };
}
