/**
 * A gateway without plugin processes: real kernel, SQLite and importer, and a scripted runner. The input of a call
 * determines what it does: {do: "echo" | "fail" | "wait" | "talk"}.
 */

import { hash, randomFillSync } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createIdSource, type Json, type JsonObject } from "@backplane/contract";
import { ErrorEnvelopeSchema } from "@backplane/contract/schema";
import { createKernel } from "@backplane/kernel";
import {
  type Clock,
  hostPolicy,
  type Kernel,
  type PluginLoader,
  type RunListener,
  type Runner,
  type RunOutcome,
  type RunRequest,
} from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createPackageImporter, openContentStore } from "@backplane/supply";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { type Api, type ApiOptions, createApi } from "../../src/index.ts";

export const ADMIN_TOKEN = "admin-token-of-the-test";

export interface TestApi {
  api: Api;
  kernel: Kernel;
  runner: ScriptedRunner;
  clock: TestClock;
  home: string;
  logged: { message: string; fields: object }[];
  call(method: string, url: string, options?: CallOptions): Promise<TestResponse>;
  close(): Promise<void>;
}

interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  /** null sends no credential. */
  token?: string | null;
}

export interface TestResponse {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests check responses field by field
  json: any;
}

export async function startApi(
  options: { wrap?: (kernel: Kernel) => Kernel; api?: Partial<ApiOptions>; plugins?: PluginLoader } = {},
): Promise<TestApi> {
  const home = createMemoryFolder("backplane-api-");
  const clock = createTestClock();
  const random = (bytes: Uint8Array) => void randomFillSync(bytes);
  const ids = createIdSource(() => clock.now(), random);
  const file = join(home, "store.db");
  await copyEmptyStore(file);
  const store = await openSqliteStore({ file, threaded: false });
  const schemas = shareSchemas();
  const runner = createScriptedRunner();
  const files = openContentStore(join(home, "blobs"));
  const kernel = createKernel({
    store,
    runner,
    importer: createPackageImporter({ store: files, schemas, host: { os: "linux", arch: "amd64" } }),
    schemas,
    vault: createSecretVault([{ id: "k1", key: Buffer.alloc(32, 7) }]),
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy(),
    gateway: { base_url: () => "http://127.0.0.1:7420" },
    log: createTestLogger(),
    pause: setImmediate,
    ...(options.plugins === undefined ? {} : { plugins: options.plugins }),
  });
  await kernel.start();
  const logged: TestApi["logged"] = [];
  const api = await createApi({
    kernel: options.wrap?.(kernel) ?? kernel,
    auth: { admin_token_sha256: hash("sha256", ADMIN_TOKEN) },
    listen: { hosts: ["gateway.example"] },
    version: "0.0.0-test",
    clock,
    ids,
    log: createTestLogger((_, message, fields) => logged.push({ message, fields })),
    ...options.api,
  });
  return {
    api,
    kernel,
    runner,
    clock,
    home,
    logged,
    call: (method, url, call) => inject(api, kernel, method, url, call),
    async close() {
      await api.close();
      await kernel.stop(0);
      await store.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

async function inject(
  api: Api,
  kernel: Kernel,
  method: string,
  url: string,
  call: CallOptions = {},
): Promise<TestResponse> {
  const headers: Record<string, string> = { host: "127.0.0.1:7420", ...call.headers };
  if (call.token !== null) headers.authorization ??= `Bearer ${call.token ?? ADMIN_TOKEN}`;
  const raw = typeof call.body === "string" || Buffer.isBuffer(call.body);
  if (call.body !== undefined && !raw) headers["content-type"] ??= "application/json";
  const response = await api.inject({
    method: method as "GET",
    url,
    headers,
    ...(call.body === undefined ? {} : { payload: raw ? (call.body as string) : JSON.stringify(call.body) }),
  });
  const is_json = String(response.headers["content-type"] ?? "").startsWith("application/json");
  const json = is_json && response.body !== "" ? JSON.parse(response.body) : undefined;
  assertDescribed(api, kernel, method, url, response.statusCode, json);
  return { status: response.statusCode, headers: response.headers, text: response.body, json };
}

/** Checks that the status and body of each response to `call` match the description of its route. */
function assertDescribed(
  api: Api,
  kernel: Kernel,
  method: string,
  url: string,
  status: number,
  json: unknown,
): void {
  const path = url.split("?", 1)[0]!;
  // After the gate, /mcp responds with JSON-RPC, even for errors.
  if (/^\/mcp(\/|$)/.test(path) && (json as { jsonrpc?: string } | undefined)?.jsonrpc === "2.0") return;
  const documented = findRoute(api, method, path)?.responses[status];
  // A browser gets a page, even for errors.
  if (status >= 400 && documented?.type === "text/html") return;
  const { error_schema = ErrorEnvelopeSchema } = findRoute(api, method, path) ?? {};
  if (status >= 400) return void error_schema.parse(json);
  if (kernel.adapters.find(method, path)?.mount.responses?.[status] !== undefined) return;
  if (documented === undefined)
    throw new Error(`${method} ${path} responded ${status}, which its description does not list`);
  documented.schema?.parse(json);
}

/** The patterns of the routes of each API, in the order in which a path is compared with them. */
const matchers = new WeakMap<Api, { route: Api["routeTable"][number]; pattern: RegExp }[]>();

function findRoute(api: Api, method: string, path: string): Api["routeTable"][number] | undefined {
  let routes = matchers.get(api);
  if (routes === undefined) {
    // The longer path is the one with a verb.
    const sorted = api.routeTable.toSorted((a, b) => b.path.length - a.path.length);
    routes = sorted.map((route) => ({
      route,
      pattern: new RegExp(`^${route.path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+?")}$`),
    }));
    matchers.set(api, routes);
  }
  return routes.find(({ route, pattern }) => route.method === method && pattern.test(path))?.route;
}

interface TestClock extends Clock {
  /** Advances both clocks and runs due timers. */
  advance(ms: number): void;
}

function createTestClock(): TestClock {
  let ahead = 0;
  const waiting = new Set<{ due: number; run: () => void; timer: NodeJS.Timeout }>();
  const monotonic = () => performance.now() + ahead;
  return {
    now: () => Date.now() + ahead,
    monotonic,
    after(ms, run) {
      const entry = { due: monotonic() + ms, run: () => fire(), timer: setTimeout(() => fire(), ms) };
      const fire = () => {
        clearTimeout(entry.timer);
        if (waiting.delete(entry)) run();
      };
      waiting.add(entry);
      return {
        stop() {
          clearTimeout(entry.timer);
          waiting.delete(entry);
        },
      };
    },
    advance(ms) {
      ahead += ms;
      for (const entry of Array.from(waiting)) if (entry.due <= monotonic()) entry.run();
    },
  };
}

interface ScriptedRunner extends Runner {
  requests: RunRequest[];
  /** Ends a waiting call. */
  release(invocation_id: string): void;
  /** Makes a waiting call send an event. */
  emit(invocation_id: string, event: JsonObject & { type: string }): void;
  /** Resolves when this many calls have been started in total. */
  started(count: number): Promise<void>;
}

function createScriptedRunner(): ScriptedRunner {
  const requests: RunRequest[] = [];
  const waiting_calls = new Map<string, { end(outcome: RunOutcome): void; listener: RunListener }>();
  const watchers: { count: number; resolve: () => void }[] = [];
  return {
    requests,
    async run(request, listener) {
      requests.push(request);
      for (const watcher of watchers) if (requests.length >= watcher.count) watcher.resolve();
      const input = (request.body.input ?? {}) as { do?: string; text?: string };
      if (input.do === "wait")
        return new Promise((end) => {
          waiting_calls.set(request.invocation_id, { end, listener });
        });
      if (input.do === "talk")
        for (const message of ["one", "two", "three"]) listener.event({ type: "progress", message });
      if (input.do === "fail")
        return outcome("failed", null, { code: "plugin_failed", message: "it would not" });
      return outcome("succeeded", {
        content: [{ type: "text", text: input.text ?? "done" }],
        is_error: false,
      });
    },
    release(id) {
      waiting_calls.get(id)?.end(outcome("succeeded", { content: [{ type: "text", text: "released" }] }));
      waiting_calls.delete(id);
    },
    emit: (id, event) => waiting_calls.get(id)?.listener.event(event),
    started: (count) =>
      requests.length >= count
        ? Promise.resolve()
        : new Promise((resolve) => void watchers.push({ count, resolve })),
    cancel(id, reason) {
      const call = waiting_calls.get(id);
      call?.end(outcome("cancelled", null, { code: "cancelled", message: `cancelled: ${reason}` }));
      return waiting_calls.delete(id);
    },
    retire() {},
    health: () => ({
      processes: 0,
      prewarmed: 0,
      running: waiting_calls.size,
      held_back: [],
      sandbox: { enabled: true, available: true, reason: "" },
    }),
    async close() {
      for (const call of waiting_calls.values())
        call.end(outcome("cancelled", null, { code: "cancelled", message: "closed" }));
    },
  };
}

function outcome(status: RunOutcome["status"], result: Json, error: RunOutcome["error"] = null): RunOutcome {
  return { status, result, error, violations: 0, stderr_tail: null, egress: null, dispatched: true };
}
