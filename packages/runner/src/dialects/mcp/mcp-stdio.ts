/**
 * `mcp.stdio`: an MCP server as a process, one for all calls with the same pool key. The binding sets its arguments and
 * environment (`config.args`, `config.env`) and how long it may be idle (`config.idle_timeout_s`). The mounted folders
 * are its roots.
 */
import { BackplaneError, isObject, type JsonObject, placeholderSlots } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";
import type { Dialect, DialectLaunch } from "../../ports/dialect.ts";
import {
  fillSecrets,
  fillsOwnArguments,
  requireConfiguredSecrets,
} from "../../secrets/configured-secrets.ts";
import type { ServerLogLevels } from "./log-levels.ts";
import { McpDialectSession } from "./session.ts";
import { StdioTransport } from "./stdio-transport.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_ARGS = 64;
const MAX_TEXT = 4_096;
const MAX_IDLE_S = 86_400;
/** The maximum size of the set of packages whose server exited or hung on `server/discover`. */
const MAX_WITHOUT_DISCOVERY = 1_000;

export function mcpStdio(levels: ServerLogLevels): Dialect {
  const without_discovery = new Set<string>();
  return {
    protocol: "mcp.stdio",
    lifetime: "pooled",
    resident: true,
    idleTimeout: ({ context }, { server_idle_ms }) => {
      const seconds = readIdleSeconds(context.config);
      return (seconds === null ? server_idle_ms : seconds * 1_000) || null;
    },
    call_scratch: false,
    unsupportedReason: (request) =>
      request.op === "tool.invoke" ? null : `An MCP server supports only tools, not ${request.op}.`,
    launch: async (request) => planLaunch(request),
    connect: (link) => {
      const request = link.request!;
      const { digest } = request.package;
      return new McpDialectSession({
        link,
        createTransport: (events) => new StdioTransport(link.transport, link.limits, events),
        folders: request.grant.mounts.map(({ target }) => target),
        log_level: levels.forServer(request),
        skip_discovery: without_discovery.has(digest),
        disableDiscovery: () => {
          if (without_discovery.size >= MAX_WITHOUT_DISCOVERY) without_discovery.clear();
          without_discovery.add(digest);
        },
      });
    },
  };
}

/** Secrets in `config.env` are passed like those of the grant, and so are those in the arguments of a Node program. */
function planLaunch(request: ProcessRequest): DialectLaunch {
  const { package: pack, context } = request;
  requireConfiguredSecrets(request);
  readIdleSeconds(context.config);
  const args = readArgs(context.config);
  const env = Object.entries(readEnv(context.config));
  return {
    entrypoint: [
      ...pack.runtime.entrypoint,
      ...(fillsOwnArguments(request) ? args : args.map((argument) => fillSecrets(argument, request))),
    ],
    env: {
      ...pack.runtime.env,
      ...Object.fromEntries(
        env
          .filter(([, value]) => placeholderSlots(value).length === 0)
          .map(([name, value]) => [name, fillSecrets(value, request)]),
      ),
    },
    binds: [],
  };
}

function readArgs({ args }: JsonObject): string[] {
  if (args === undefined) return [];
  if (!Array.isArray(args) || args.length > MAX_ARGS || !args.every(isText)) {
    throw invalidConfig("config.args", `must be a list of at most ${MAX_ARGS} strings`);
  }
  return args as string[];
}

function readEnv({ env }: JsonObject): Record<string, string> {
  if (env === undefined) return {};
  if (!isObject(env)) throw invalidConfig("config.env", "must map names to strings");
  for (const [name, value] of Object.entries(env)) {
    if (!VARIABLE.test(name) || !isText(value))
      throw invalidConfig(`config.env.${name.slice(0, 80)}`, "is not a valid variable");
  }
  return env as Record<string, string>;
}

/** Null if the binding does not set it. */
function readIdleSeconds({ idle_timeout_s: seconds }: JsonObject): number | null {
  if (seconds === undefined) return null;
  if (typeof seconds === "number" && Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_IDLE_S)
    return seconds;
  throw invalidConfig("config.idle_timeout_s", `must be a whole number from 0 (never) to ${MAX_IDLE_S}`);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= MAX_TEXT && !value.includes("\0");
}

function invalidConfig(where: string, reason: string): BackplaneError {
  return new BackplaneError("launch_failed", `${where} of the binding ${reason}.`, {
    fix: 'Write it like this: --config \'{"args": ["/data"], "env": {"LEVEL": "info"}, "idle_timeout_s": 600}\'',
  });
}
