/**
 * The HTTP routes of adapter plugins. Routes are mounted while their plugin is loaded. The body of a request
 * is checked before the plugin receives it, and the plugin's answer before it becomes an HTTP response.
 */

import {
  type AdapterResponse,
  BackplaneError,
  canonicalJson,
  codeOf,
  diskFault,
  type Json,
  WIRE_LIMITS,
} from "@backplane/contract";
import { type AdapterMount, type Adapters, type Schemas, withChannel } from "@backplane/ports";
import { describeThrown } from "./describe-thrown.ts";
import type { Instance } from "./instance.ts";
import { findMount, type MountedRoute, mountRoute } from "./mounts.ts";
import type { PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import type { MintedCallers } from "./services.ts";
import { withTimeout } from "./with-timeout.ts";

interface AdapterOptions {
  deps: Pick<PluginSystemDeps, "clock" | "log" | "schemas">;
  timeouts: PluginTimeouts;
  callers: MintedCallers;
  subscribeOrg(org_id: string): void;
  isDisabled(plugin: string): boolean;
}

export class MountedAdapters implements Adapters {
  readonly #options: AdapterOptions;
  readonly #instances = new Map<string, { instance: Instance; mounts: readonly MountedRoute[] }>();
  #all: readonly MountedRoute[] = [];
  #mounts: readonly AdapterMount[] = [];
  readonly #listeners = new Set<(plugin: string) => void>();

  constructor(options: AdapterOptions) {
    this.#options = options;
  }

  list(): readonly AdapterMount[] {
    return this.#mounts;
  }

  find(method: string, path: string): ReturnType<Adapters["find"]> {
    return findMount(this.#all, method, path);
  }

  isDisabled(plugin: string): boolean {
    return this.#options.isDisabled(plugin);
  }

  onDisabled(listener: (plugin: string) => void): void {
    this.#listeners.add(listener);
  }

  /** Called when a plugin has been unloaded. */
  onRemoved(plugin: string): void {
    if (this.isDisabled(plugin)) for (const listener of this.#listeners) listener(plugin);
  }

  /**
   * Checks the routes without mounting them. Throws `plugin.invalid` when a route is invalid or already in
   * use.
   */
  check(instance: Instance, api: boolean): readonly MountedRoute[] {
    const { plugin, name } = instance;
    const mounts = (plugin.routes ?? []).map((route) => mountRoute(name, route, api));
    const other_mounts = this.#all.filter(({ mount }) => mount.plugin !== name);
    const owners = new Map(other_mounts.map(({ shape, mount }) => [shape, mount.plugin]));
    for (const { shape } of mounts) {
      const owner = owners.get(shape);
      if (owner !== undefined)
        throw new BackplaneError("plugin.invalid", `the route ${shape} is taken by ${owner}`);
      owners.set(shape, name);
    }
    return mounts;
  }

  mount(instance: Instance, api: boolean): void {
    this.#instances.set(instance.name, { instance, mounts: this.check(instance, api) });
    this.#updateMounts();
  }

  unmount(instance: Instance): void {
    if (this.#instances.get(instance.name)?.instance !== instance) return;
    this.#instances.delete(instance.name);
    this.#updateMounts();
  }

  async handle(
    caller: Parameters<Adapters["handle"]>[0],
    mount: AdapterMount,
    request: Parameters<Adapters["handle"]>[2],
  ): ReturnType<Adapters["handle"]> {
    const { callers, deps, timeouts } = this.#options;
    const instance = this.#instances.get(mount.plugin)?.instance;
    if (instance === undefined) throw new BackplaneError("route.not_found", `${mount.plugin} is not loaded.`);
    const route = `${mount.method} ${mount.path}`;
    await checkBody(deps.schemas, mount, request.body);
    this.#options.subscribeOrg(caller.scope.org_id);
    const minted = callers.mint({
      plugin: mount.plugin,
      caller: withChannel(caller, mount.plugin),
      call: null,
    });
    const answerRequest = () =>
      instance.plugin.onRequest!({ ...request, route, as: minted.as }, instance.getContext(caller.scope));
    try {
      const description = `${mount.plugin}'s answer to ${route}`;
      const response = await instance.track(() =>
        withTimeout(deps.clock, timeouts.request_ms, description, answerRequest),
      );
      return checkResponse(mount.plugin, response);
    } catch (error) {
      // An error of a kernel service that the adapter did not catch is returned to the client unchanged.
      if (codeOf(error) !== undefined) throw error;
      const fault = diskFault(error);
      if (fault !== null) throw fault;
      deps.log.warn({ plugin: mount.plugin, route, trace: describeThrown(error).trace }, "an adapter failed");
      throw new BackplaneError(
        "crashed",
        `${mount.plugin} failed to answer ${route}; see its log for the cause.`,
      );
    } finally {
      minted.end();
    }
  }

  #updateMounts(): void {
    const all = [...this.#instances.values()].flatMap(({ mounts }) => mounts);
    this.#all = all.toSorted((a, b) => b.literal_chars - a.literal_chars);
    this.#mounts = all.map(({ mount }) => mount);
  }
}

/**
 * Checks a request body against the schema that its adapter declares. A request without a body counts as one without
 * fields, so that a body of optional fields may be left out.
 */
export async function checkBody(
  schemas: Schemas | undefined,
  mount: AdapterMount,
  body: Json,
): Promise<void> {
  if (schemas === undefined || mount.body === undefined) return;
  // The schema is part of the key, because a reloaded plugin may declare another schema for the same route.
  const check = await schemas.compile(`adapter ${mount.plugin} ${canonicalJson(mount.body)}`, mount.body);
  const issues = (await check(body ?? {})).map(({ path, message }) => ({
    path: `body${path.replaceAll("/", ".")}`,
    message,
  }));
  const [first] = issues;
  if (first === undefined) return;
  throw new BackplaneError("request.invalid", `${first.path}: ${first.message}`, { details: { issues } });
}

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** The gateway frames responses itself, and a cookie set on its origin would also reach the console. */
const FORBIDDEN_HEADERS = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "set-cookie",
  "transfer-encoding",
  "upgrade",
]);

/** Throws `malformed_response` for an answer that cannot be an HTTP response. */
function checkResponse(plugin: string, response: unknown): AdapterResponse {
  const malformed = (problem: string) =>
    new BackplaneError("malformed_response", `${plugin} answered with ${problem}.`);
  if (typeof response !== "object" || response === null) throw malformed("something that is not an object");
  const { status, body, headers } = response as { status?: unknown; body?: unknown; headers?: unknown };
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599) {
    throw malformed("a status that is not an integer from 200 to 599");
  }
  const checked: AdapterResponse = { status };
  if (body !== undefined) {
    if (!isJson(body, 0)) throw malformed("a body that is not JSON");
    checked.body = body;
  }
  if (headers !== undefined) {
    if (typeof headers !== "object" || headers === null) throw malformed("headers that are not an object");
    for (const [name, value] of Object.entries(headers)) {
      if (!HEADER_NAME.test(name) || FORBIDDEN_HEADERS.has(name.toLowerCase()))
        throw malformed("a header that adapters may not set");
      if (typeof value !== "string" || !HEADER_VALUE.test(value))
        throw malformed("a header value that is not a single line of text");
    }
    checked.headers = { ...(headers as Record<string, string>) };
  }
  return checked;
}

function isJson(value: unknown, depth: number): value is Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth >= WIRE_LIMITS.json_depth) return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((item) => item === undefined || isJson(item, depth + 1));
}
