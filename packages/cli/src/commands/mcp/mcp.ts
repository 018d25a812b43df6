/** `mcp`: serves the tools of a running gateway to an MCP client over stdio. */
import type { Command } from "commander";
import type { ToAction } from "../../context/action.ts";
import { type CommandContext, scopeHeaders } from "../../context/context.ts";
import { bridgeMcp } from "./bridge.ts";

const HELP = `
Client configuration:
  {"mcpServers": {"backplane": {"command": "backplane", "args": ["mcp"]}}}

A client that supports MCP over HTTP can connect to /mcp of the gateway directly.
`;

export function addMcpCommand(program: Command, toAction: ToAction): void {
  program
    .command("mcp")
    .description("Serve the gateway's tools to an MCP client over stdio.")
    .option("--server <name>", "serve one MCP server of the gateway, with its original tool names")
    .addHelpText("after", HELP)
    .action(toAction(serve));
}

async function serve(context: CommandContext, { server }: { server?: string }): Promise<undefined> {
  const { io, flags } = context;
  const stop = new AbortController();
  const stopListening = io.onSignal(() => stop.abort());
  try {
    await bridgeMcp({
      url: `${context.url()}/mcp${server === undefined ? "" : `/servers/${encodeURIComponent(server)}`}`,
      headers: { authorization: `Bearer ${context.token()}`, ...scopeHeaders(flags) },
      input: io.stdin,
      write: (line) => void io.stdout.write(`${line}\n`),
      stop: stop.signal,
    });
  } finally {
    stopListening();
  }
}
