/** `mcp`: the tools of a running gateway for a client that speaks MCP over stdio. */
import type { Command } from "commander";
import type { Act } from "../../context/action.ts";
import { type Context, scopeHeaders } from "../../context/context.ts";
import { bridgeMcp } from "./bridge.ts";

const HELP = `
For the configuration of a client:
  {"mcpServers": {"backplane": {"command": "backplane", "args": ["mcp"]}}}

A client that speaks MCP over HTTP can use the gateway's /mcp itself.
`;

export function addMcpCommand(program: Command, act: Act): void {
  program
    .command("mcp")
    .description("Serve the gateway's tools to an MCP client over stdio.")
    .option("--server <name>", "one MCP server behind the gateway, under its own names")
    .addHelpText("after", HELP)
    .action(act(serve));
}

async function serve(context: Context, { server }: { server?: string }): Promise<undefined> {
  const { io, flags } = context;
  const stop = new AbortController();
  const silence = io.onSignal(() => stop.abort());
  try {
    await bridgeMcp({
      url: `${context.url()}/mcp${server === undefined ? "" : `/servers/${encodeURIComponent(server)}`}`,
      headers: { authorization: `Bearer ${context.token()}`, ...scopeHeaders(flags) },
      input: io.stdin,
      write: (line) => void io.stdout.write(`${line}\n`),
      stop: stop.signal,
    });
  } finally {
    silence();
  }
}
