/**
 * Restricts the network access of reviewed code that runs inside the gateway (sandbox.class). A connection opened by a
 * plugin or one of its dependencies is refused unless the plugin may connect to the host, and goes only to checked
 * addresses (sec.provider-egress). The guard protects against mistakes and misconfigured addresses. It is not a
 * security boundary: code in this process can deliberately bypass it, which is why inline plugins require the
 * operator's trust.
 *
 * The async context identifies the running plugin. Requests are checked as well as connections, because a connection
 * pool may reuse a connection that was opened by another plugin or for another org.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import dgram from "node:dgram";
import { type AgentOptions, Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import net, { isIP, type LookupFunction } from "node:net";
import { BackplaneError } from "@backplane/contract";

export interface GuardedPlugin {
  name: string;
  /** Whether the plugin may connect to the host and port. The addresses of the host are checked separately. */
  allows(host: string, port: number): boolean;
  /** The checked addresses of the host; rejects when none is allowed. */
  addresses(host: string, port: number): Promise<readonly string[]>;
  /** The error that refuses a literal IP address; null if the address is allowed. */
  refuseLiteral(host: string, port: number): BackplaneError | null;
  /** Called for each refusal. */
  recordRefusal(address: string): void;
}

export interface NetworkGuard {
  /** Runs code of the plugin, including everything asynchronous that it starts. */
  enter: <T>(plugin: GuardedPlugin, work: () => T) => T;
  /** Runs code of the gateway that a plugin has called. */
  leave: <T>(work: () => T) => T;
}

type GuardedFunction = ((...args: unknown[]) => unknown) & { [INSTALLED]?: NetworkGuard };
type RunningPlugin = AsyncLocalStorage<GuardedPlugin | undefined>;

/** Stored on the patched function, so that the process has one guard even if this module is loaded twice. */
const INSTALLED: unique symbol = Symbol.for("backplane.network-guard");

/** Patches the process once; further calls return the same guard. */
export function installNetworkGuard(): NetworkGuard {
  const sockets = net.Socket.prototype as unknown as { connect: GuardedFunction };
  const installed = sockets.connect[INSTALLED];
  if (installed !== undefined) return installed;
  const running: RunningPlugin = new AsyncLocalStorage();
  const guard: NetworkGuard = {
    enter: (plugin, work) => running.run(plugin, work),
    leave: (work) => running.run(undefined, work),
  };
  const { connect } = sockets;
  const guarded: GuardedFunction = function (this: net.Socket, ...args: unknown[]) {
    const plugin = running.getStore();
    if (plugin === undefined) return connect.apply(this, args);
    const target = parseTarget(args);
    const refusal = findRefusal(plugin, target);
    if (refusal === null) return connect.apply(this, pinArguments(args, plugin, target!));
    // Fails asynchronously with an `error` event, like any failed connection.
    process.nextTick(() => this.destroy(refusal));
    return this;
  };
  guarded[INSTALLED] = guard;
  sockets.connect = guarded;
  guardDatagrams(running);
  guardFetch(running);
  guardAgents(running);
  return guard;
}

/** UDP is always refused: no plugin is allowed to use it. */
function guardDatagrams(running: RunningPlugin): void {
  const sockets = dgram.Socket.prototype as unknown as Record<"connect" | "send", GuardedFunction>;
  for (const method of ["connect", "send"] as const) {
    const original = sockets[method];
    sockets[method] = function (this: dgram.Socket, ...args: unknown[]) {
      const plugin = running.getStore();
      if (plugin === undefined) return original.apply(this, args);
      plugin.recordRefusal("UDP");
      throw new BackplaneError("policy.denied", `${plugin.name} may not use UDP.`, { fix: "Use TCP." });
    };
  }
}

/** Redirects are not followed: they may lead to a host that nobody configured, which would get the headers. */
function guardFetch(running: RunningPlugin): void {
  const original = globalThis.fetch;
  globalThis.fetch = async function fetch(input, init) {
    const plugin = running.getStore();
    if (plugin === undefined) return await original(input, init);
    // Converted once, so that the checked URL is the requested one.
    const resource = input instanceof Request ? input : String(input);
    const url = resolveUrl(resource, init);
    await checkUrl(plugin, url);
    const redirect = init?.redirect ?? (resource instanceof Request ? resource.redirect : "follow");
    const response = await original(resource, {
      ...init,
      redirect: redirect === "follow" ? "manual" : redirect,
    });
    if (redirect !== "follow" || response.status < 300 || response.status > 399 || response.status === 304)
      return response;
    await response.body?.cancel();
    throw fetchError(
      new BackplaneError(
        "policy.denied",
        `${url.host} responded with a redirect (HTTP ${response.status}), which is not followed.`,
      ),
    );
  };
}

/** Avoids creating a `Request` in addition to the one in fetch, which slows down model calls (benchmark llm.proxy). */
function resolveUrl(resource: Request | string, init: RequestInit | undefined): URL {
  if (resource instanceof Request) return new URL(resource.url);
  // For an invalid URL, the constructor of Request throws an error that explains the problem.
  return new URL(URL.canParse(resource) ? resource : new Request(resource, init).url);
}

interface GuardedRequest {
  onSocket(socket: null, error: unknown): void;
}
type AddRequest = (
  this: HttpAgent,
  request: GuardedRequest,
  options: { host?: string; port?: number | string },
  ...more: unknown[]
) => void;

/**
 * Shared agents of Node reuse connections, so a request from a plugin gets its own connection. An agent that the plugin
 * created may keep its connections, and each of its requests is checked.
 */
function guardAgents(running: RunningPlugin): void {
  const agents = HttpAgent.prototype as unknown as { addRequest: AddRequest };
  const { addRequest } = agents;
  agents.addRequest = function (this: HttpAgent, ...args) {
    const plugin = running.getStore();
    if (plugin === undefined) return addRequest.apply(this, args);
    const shared = this.constructor === HttpAgent || this.constructor === HttpsAgent;
    if (shared) {
      const Agent = this.constructor as typeof HttpAgent;
      const { options } = this as unknown as { options: AgentOptions };
      return addRequest.apply(new Agent({ ...options, keepAlive: false }), args);
    }
    const [request, { host = "localhost", port }] = args;
    const refuse = (error: unknown) => request.onSocket(null, error);
    const target = { host: plainHost(host), port: Number(port) };
    const refusal = findRefusal(plugin, target);
    if (refusal !== null) return refuse(refusal);
    if (isIP(target.host) !== 0) return addRequest.apply(this, args);
    checkAddresses(plugin, target)
      .then(() => addRequest.apply(this, args))
      .catch(refuse);
  };
}

async function checkUrl(plugin: GuardedPlugin, { hostname, port, protocol }: URL): Promise<void> {
  // `data:` and `blob:` URLs open no connection.
  if (protocol !== "http:" && protocol !== "https:") return;
  const host = plainHost(hostname);
  const target = { host, port: Number(port) || (protocol === "http:" ? 80 : 443) };
  const refusal = findRefusal(plugin, target);
  if (refusal !== null) throw fetchError(refusal);
  if (isIP(host) !== 0) return;
  await checkAddresses(plugin, target).catch((error: unknown) => {
    throw fetchError(error);
  });
}

/** Rejects if an address of the name may not be connected to. */
async function checkAddresses(plugin: GuardedPlugin, target: Target): Promise<void> {
  await plugin.addresses(target.host, target.port).catch((error: unknown) => {
    reportRefusal(plugin, target, error);
    throw error;
  });
}

/** The error that the `fetch` of Node throws for a failed request. */
function fetchError(cause: unknown): TypeError {
  return new TypeError("fetch failed", { cause });
}

type Target = { host: string; port: number };

/**
 * Accepts all forms of `connect`: options, a port and a host, a path, or the normalized array of `net.connect`. Null
 * for a unix socket.
 */
function parseTarget(args: readonly unknown[]): Target | null {
  const [first, second] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  if (typeof first === "object" && first !== null) {
    const { host = "localhost", path, port } = first as { host?: string; port?: number; path?: string };
    return typeof path === "string" ? null : { host: plainHost(String(host)), port: Number(port) };
  }
  const port = Number(first);
  if (typeof first === "string" && !(port >= 0)) return null;
  return { host: typeof second === "string" ? plainHost(second) : "localhost", port };
}

function plainHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, "").replaceAll(/[[\]]/g, "");
}

/** Replaces the DNS lookup of the arguments, so that the socket connects only to a checked address. */
function pinArguments(args: readonly unknown[], plugin: GuardedPlugin, target: Target): unknown[] {
  const connect_args = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  const [first] = connect_args;
  const options = typeof first === "object" && first !== null ? first : target;
  const onConnect = connect_args.findLast((argument) => typeof argument === "function");
  const lookup: LookupFunction = (_name, { all }, report) => {
    plugin.addresses(target.host, target.port).then(
      (addresses) => {
        const list = addresses.map((address) => ({ address, family: isIP(address) }));
        if (all === true) report(null, list);
        else report(null, list[0]!.address, list[0]!.family);
      },
      (error: NodeJS.ErrnoException) => {
        reportRefusal(plugin, target, error);
        report(error, "", 0);
      },
    );
  };
  return [{ ...options, lookup }, ...(onConnect === undefined ? [] : [onConnect])];
}

function findRefusal(plugin: GuardedPlugin, target: Target | null): BackplaneError | null {
  if (target === null)
    return createRefusal(
      plugin,
      "a unix socket",
      "Connect to a host and port that the operator has allowed.",
    );
  const { host, port } = target;
  if (!plugin.allows(host, port)) return createRefusal(plugin, `${host}:${port}`);
  const literal = isIP(host) === 0 ? null : plugin.refuseLiteral(host, port);
  if (literal !== null) plugin.recordRefusal(`${host}:${port}`);
  return literal;
}

function reportRefusal(plugin: GuardedPlugin, { host, port }: Target, error: unknown): void {
  if ((error as { code?: unknown }).code === "policy.denied") plugin.recordRefusal(`${host}:${port}`);
}

const ALLOW_HOST =
  "Add the host to plugin.NAME.allowed_domains, with _ for each - in the plugin's name, and use net.fetch.";

function createRefusal(plugin: GuardedPlugin, address: string, fix = ALLOW_HOST): BackplaneError {
  plugin.recordRefusal(address);
  return new BackplaneError("policy.denied", `${plugin.name} may not connect to ${address}.`, { fix });
}
