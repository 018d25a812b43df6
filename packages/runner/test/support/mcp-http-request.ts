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

/** Answers this method with `answer` and leaves all others to the default answer. */
export const answerMethod =
  (method: string, answer: (request: ReceivedRequest, reply: Reply) => void) =>
  (request: ReceivedRequest, reply: Reply) => {
    if (request.message.method !== method) return false;
    answer(request, reply);
    return true;
  };
