/**
 * `mcp.stdio`: an MCP server as a process, one for all calls of a binding. Its arguments and plain variables are the
 * binding's (`config.args`, `config.env`); the folders that the operator mounts are its roots.
 */
import { BackplaneError, isObject, type JsonObject } from "@backplane/contract";
import type { Dialect, DialectLaunch, ProcessOrder } from "../../ports/dialect.ts";
import { McpSession } from "./session.ts";
import { StdioLine } from "./stdio-transport.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_ARGS = 64;
const MAX_TEXT = 4_096;
/** Servers that did not survive `server/discover`, remembered so that their next start works. */
const MAX_SPARED = 1_000;

export function mcpStdio(): Dialect {
  const spared = new Set<string>();
  return {
    protocol: "mcp.stdio",
    lifetime: "pooled",
    resident: true,
    call_scratch: false,
    refuses: (order) =>
      order.op === "tool.invoke" ? null : `An MCP server offers tools only, no ${order.op}.`,
    launch: async (order) => launchOf(order),
    connect: (link) => {
      const { order } = link;
      const digest = order?.package.digest ?? "";
      return new McpSession({
        link,
        makeLine: (events) => new StdioLine(link.transport, link.limits, events),
        folders: order?.grant.mounts.map(({ target }) => target) ?? [],
        skip_discovery: spared.has(digest),
        spare: () => {
          if (spared.size >= MAX_SPARED) spared.clear();
          spared.add(digest);
        },
      });
    },
  };
}

function launchOf({ package: { runtime }, context }: ProcessOrder): DialectLaunch {
  return {
    entrypoint: [...runtime.entrypoint, ...argsOf(context.config)],
    env: { ...runtime.env, ...envOf(context.config) },
    binds: [],
  };
}

function argsOf({ args }: JsonObject): string[] {
  if (args === undefined) return [];
  if (!Array.isArray(args) || args.length > MAX_ARGS || !args.every(isText)) {
    throw unusable("config.args", `must be a list of at most ${MAX_ARGS} texts`);
  }
  return args as string[];
}

function envOf({ env }: JsonObject): Record<string, string> {
  if (env === undefined) return {};
  if (!isObject(env)) throw unusable("config.env", "must map names to texts");
  for (const [name, value] of Object.entries(env)) {
    if (!VARIABLE.test(name) || !isText(value))
      throw unusable(`config.env.${name.slice(0, 80)}`, "is no variable");
  }
  return env as Record<string, string>;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= MAX_TEXT && !value.includes("\0");
}

function unusable(where: string, why: string): BackplaneError {
  return new BackplaneError("launch_failed", `${where} of the binding ${why}.`, {
    fix: 'Write it like this: --config \'{"args": ["/data"], "env": {"LEVEL": "info"}}\'',
  });
}
