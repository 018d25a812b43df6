/**
 * Published gateways in front of the same stdio server, each in its own process and home, with its fastest settings: no
 * log line per call, nothing stored for a replay. None of them has a policy or a durable record. Each has one server
 * behind it, like ours.
 */
import { spawn, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withTimeLimit } from "../measuring/time-limit.ts";
import { stopChild } from "../processes/server-process.ts";
import { type McpEndpoint, type McpSession, openSession, openSseSession } from "./mcp-session.ts";

export interface McpPeer {
  key: string;
  session: McpSession;
  stop(): Promise<void>;
}

interface PeerSetup {
  home: string;
  port: number;
  program: string;
  /** A file that configures the echo server under the name `echo`. */
  config: string;
}

interface PeerKind {
  key: string;
  script: string;
  args(setup: PeerSetup): string[];
  path: string;
  tool: string;
  open(endpoint: McpEndpoint): Promise<McpSession>;
  /** The arguments of a command that stops the process that the peer leaves behind. */
  stopArgs?(setup: PeerSetup): string[];
}

const KINDS: PeerKind[] = [
  {
    // Its MCP endpoint supports only the older transport: one POST per call, the responses over one stream. At start it
    // requests its catalog from the internet and continues without it.
    key: "mcp-hub-4",
    script: "mcp-hub/dist/cli.js",
    args: ({ port, config }) => ["--port", String(port), "--config", config],
    path: "/mcp",
    tool: "echo__echo",
    open: openSseSession,
  },
  {
    key: "supergateway-4",
    script: "supergateway/dist/index.js",
    args: ({ port, program }) =>
      `--outputTransport streamableHttp --stateful --logLevel none --port ${port} --stdio`
        .split(" ")
        .concat(`"${process.execPath}" "${program}"`),
    path: "/mcp",
    tool: "echo",
    open: openSession,
  },
  {
    key: "mcp-proxy-6",
    script: "mcp-proxy/dist/bin/mcp-proxy.mjs",
    args: ({ port, program }) =>
      `--host 127.0.0.1 --port ${port} --server stream --no-eventStore --`
        .split(" ")
        .concat(process.execPath, program),
    path: "/mcp",
    tool: "echo",
    open: openSession,
  },
  {
    // It has no sessions; a daemon process owns the server.
    key: "mcporter-0.12",
    script: "mcporter/dist/cli.js",
    args: ({ port, config }) => ["--config", config, "serve", "--http", String(port)],
    path: "/mcp/echo",
    tool: "echo",
    open: openSession,
    stopArgs: ({ config }) => ["--config", config, "daemon", "stop"],
  },
];

const READY_TIMEOUT_MS = 30_000;

export async function startMcpPeers(program: string): Promise<McpPeer[]> {
  const peers: McpPeer[] = [];
  try {
    for (const kind of KINDS) peers.push(await start(kind, program));
    return peers;
  } catch (error) {
    for (const peer of peers) await peer.stop();
    throw error;
  }
}

async function start(kind: PeerKind, program: string): Promise<McpPeer> {
  const home = mkdtempSync(join(tmpdir(), "backplane-peer-"));
  const setup = { home, port: await findFreePort(), program, config: join(home, "servers.json") };
  const echo = { command: process.execPath, args: [program], lifecycle: "keep-alive" };
  writeFileSync(setup.config, JSON.stringify({ mcpServers: { echo }, imports: [] }));
  const script = fileURLToPath(new URL(`../../node_modules/${kind.script}`, import.meta.url));
  const env = isolatedEnvironment(home);
  const log = openSync(join(home, "log"), "w");
  // One of the peers exits when its stdin ends, so stdin stays open.
  const child = spawn(process.execPath, [script, ...kind.args(setup)], {
    env,
    cwd: home,
    stdio: ["pipe", log, log],
  });
  closeSync(log);
  const end = async () => {
    await stopChild(child);
    if (kind.stopArgs) {
      spawnSync(process.execPath, [script, ...kind.stopArgs(setup)], {
        env,
        stdio: "ignore",
        timeout: 10_000,
      });
    }
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const endpoint = { url: `http://127.0.0.1:${setup.port}${kind.path}`, headers, tool: kind.tool };
    const session = await waitUntilReady(
      () => kind.open(endpoint),
      () => child.exitCode === null,
    );
    return {
      key: kind.key,
      session,
      async stop() {
        session.close();
        await end();
      },
    };
  } catch (error) {
    const log = readFileSync(join(home, "log"), "utf8").slice(-1_000);
    await end();
    throw new Error(`${kind.key} did not start; its output: ${log}`, { cause: error });
  }
}

/** Each peer reports readiness differently, so `attempt` is repeated until it succeeds or the peer exits. */
async function waitUntilReady<T>(attempt: () => Promise<T>, isRunning: () => boolean): Promise<T> {
  const until = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    try {
      return await withTimeLimit(READY_TIMEOUT_MS, "opening a session", attempt());
    } catch (error) {
      if (!isRunning() || performance.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** A clean environment, so that a peer neither reads nor changes the user's settings. */
function isolatedEnvironment(home: string): NodeJS.ProcessEnv {
  const names = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];
  return {
    PATH: process.env.PATH,
    HOME: home,
    MCPORTER_DAEMON_DIR: home,
    ...Object.fromEntries(names.map((name) => [name, home])),
  };
}

function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
