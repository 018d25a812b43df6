/** A real gateway process, as `npm start` runs it, by default on an empty home, for tests that use it from outside. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { OWN_HEAP_FLAGS } from "../../../packages/cli/src/heap/small-heap.ts";
import { type SearchReport, searchFolder, searchText, storeReport } from "./canary.ts";

const CLI = resolve("packages/cli/dist/main.js");

export interface TestGateway {
  url: string;
  token: string;
  home: string;
  pid: number;
  process: ChildProcess;
  /** Sends a request with JSON and the admin token. */
  http<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<HttpResponse<T>>;
  cli(...args: string[]): Promise<CliResult>;
  /** Sends SIGTERM and returns the exit code. */
  stop(): Promise<number | null>;
  kill9(): Promise<void>;
  /** Everything that the gateway wrote to stderr. */
  log(): string;
  /** The number of bound exports that receive the canary, a secret (canary.ts). */
  canary_bindings: number;
  /** Kills the gateway if it is running, searches everything that it left for the canary, and removes the home. */
  dispose(): Promise<void>;
}

interface HttpResponse<T> {
  status: number;
  headers: Headers;
  body: T;
}

export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface GatewayOptions {
  home?: string;
  /** By default any free port. */
  port?: number;
  env?: Record<string, string>;
  /**
   * The user that runs the gateway and its commands. The home must belong to this user, and `env` must name a HOME and
   * a TMPDIR that the user may use.
   */
  user?: { uid: number; gid: number };
}

export async function startTestGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const home = options.home ?? mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  // `up` would start Node a second time to set MALLOC_ARENA_MAX and the heap flags.
  const env = cleanEnvironment({ BACKPLANE_HOME: home, MALLOC_ARENA_MAX: "2", ...options.env });
  const child = spawn(
    process.execPath,
    [...OWN_HEAP_FLAGS, CLI, "up", "--json", "--port", String(options.port ?? 0), "--no-open"],
    {
      env,
      ...options.user,
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let log = "";
  child.stderr.on("data", (chunk) => {
    log += chunk;
  });
  const exited = new Promise<number | null>((done) => child.once("exit", (code) => done(code)));
  const ready = await Promise.race([readFirstLine(child), exited.then(() => null)]);
  if (ready === null) throw new Error(`The gateway exited before it was ready:\n${log}`);
  const { url } = JSON.parse(ready) as { url?: string };
  if (url === undefined) throw new Error(`The gateway refused to start: ${ready}`);
  const token = readFileSync(join(home, "admin.token"), "utf8").trim();
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const searched: SearchReport = { places: 0, bytes: 0, hits: [] };
  const gateway: TestGateway = {
    canary_bindings: 0,
    url,
    token,
    home,
    pid: child.pid!,
    process: child,
    async http<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
      const json = body === undefined ? {} : { "content-type": "application/json" };
      const response = await fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${token}`, ...json, ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      searchText(`the response to ${method} ${path}`, text, searched);
      return {
        status: response.status,
        headers: response.headers,
        body: (text === "" ? null : JSON.parse(text)) as T,
      };
    },
    async cli(...args) {
      const result = await runCli(args, env, options.user);
      searchText(`the output of ${args.join(" ")}`, result.stdout + result.stderr, searched);
      return result;
    },
    async stop() {
      if (isRunning()) child.kill("SIGTERM");
      return exited;
    },
    async kill9() {
      child.kill("SIGKILL");
      await exited;
    },
    log: () => log,
    async dispose() {
      if (isRunning()) child.kill("SIGKILL");
      await exited;
      if (existsSync(home)) searchFolder(home, searched);
      searchText("the log", log, searched);
      storeReport(searched, gateway.canary_bindings);
      rmSync(home, { recursive: true, force: true });
      if (searched.hits.length > 0) throw new Error(`The canary was found: ${searched.hits.join(", ")}`);
    },
  };
  return gateway;
}

export function runCli(
  args: string[],
  env: NodeJS.ProcessEnv,
  user?: GatewayOptions["user"],
): Promise<CliResult> {
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      [CLI, ...args],
      { env, ...user, maxBuffer: 32 << 20 },
      (_error, stdout, stderr) => {
        done({ code: child.exitCode ?? -1, stdout, stderr });
      },
    );
    child.stdin?.end();
  });
}

/** The environment without the developer's settings of Backplane, Vitest and Node. The command has its own compile cache. */
export function cleanEnvironment(additions: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(BACKPLANE_|VITEST|NODE_OPTIONS|NODE_COMPILE_CACHE)/.test(name),
  );
  return { ...Object.fromEntries(inherited), ...additions };
}

async function readFirstLine(child: ChildProcess): Promise<string> {
  const { promise, resolve: done } = Promise.withResolvers<string>();
  let text = "";
  child.stdout!.on("data", (chunk) => {
    text += chunk;
    const end = text.indexOf("\n");
    if (end >= 0) done(text.slice(0, end));
  });
  return promise;
}
