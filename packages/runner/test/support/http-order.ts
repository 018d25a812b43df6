/** Orders for an MCP server at an address, a rig that may dial it, and what its tool said. */
import type { Json } from "@backplane/contract";
import type { McpHttpServer, Reply, Seen } from "./mcp-http-server.ts";
import type { OrderChange } from "./order.ts";
import { makeRig, type Rig } from "./runner.ts";

export function rigFor(server: Pick<McpHttpServer, "place">, allowed = true): Rig {
  return makeRig(allowed ? { egress: { operator_allows: [server.place] } } : {});
}

export function mcp(server: Pick<McpHttpServer, "url" | "place">, change: OrderChange = {}): OrderChange {
  return {
    protocol: "mcp.http",
    entrypoint: [server.url],
    export_id: "mcp_fixture_echo",
    native_name: "echo",
    input: { text: "hi" },
    class: "isolated",
    pool_key: "http",
    ...change,
    grant: { network: "egress", allowed_domains: ["*"], ...change.grant },
  };
}

export function text(result: Json | null): string {
  return (result as { content: { text: string }[] }).content[0]!.text;
}

/** The server answers this method so, and everything else as usual. */
export const answers =
  (on: string, how: (seen: Seen, reply: Reply) => void) => (seen: Seen, reply: Reply) => {
    if (seen.message.method !== on) return false;
    how(seen, reply);
    return true;
  };
