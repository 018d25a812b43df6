/** Requests for a remote MCP server, a runner that may connect to it, and the text of its tool result. */
import type { Json } from "@backplane/contract";
import type { McpHttpServer, ReceivedRequest, Reply } from "./mcp-http-server.ts";
import type { RequestChange } from "./request.ts";
import { createTestRunner, type TestRunner } from "./runner.ts";

export function testRunnerFor(server: Pick<McpHttpServer, "address">, allowed = true): TestRunner {
  return createTestRunner(allowed ? { egress: { operator_allows: [server.address] } } : {});
}

export function mcp(
  server: Pick<McpHttpServer, "url" | "address">,
  change: RequestChange = {},
): RequestChange {
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

/** Answers this method with `answer` and everything else as usual. */
export const answerMethod =
  (on: string, answer: (seen: ReceivedRequest, reply: Reply) => void) =>
  (seen: ReceivedRequest, reply: Reply) => {
    if (seen.message.method !== on) return false;
    answer(seen, reply);
    return true;
  };
