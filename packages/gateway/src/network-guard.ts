/**
 * Keeps reviewed code that runs inline honest about the network (sandbox.class): a connection that its own code, or a
 * dependency of it, opens is refused unless the operator named the host. It is a guard against accidents and no
 * boundary: code in this process that means to can get around it, which is why inline takes the operator's trust.
 *
 * Who runs is told by the async context, so sockets that are kept alive and used again by others are not looked at.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import dgram from "node:dgram";
import net from "node:net";
import { BackplaneError } from "@backplane/contract";

export interface GuardedPlugin {
  name: string;
  allows(host: string, port: number): boolean;
  /** Told of each refusal. */
  refused(place: string): void;
}

export interface NetworkGuard {
  /** The plugin's code and all that it sets off. */
  enter: <T>(plugin: GuardedPlugin, work: () => T) => T;
  /** Back in the gateway's own code, which a plugin called. */
  leave: <T>(work: () => T) => T;
}

type Guarded = ((...args: unknown[]) => unknown) & { [INSTALLED]?: NetworkGuard };

/** On the function itself: however often this module is loaded, the process has one guard. */
const INSTALLED: unique symbol = Symbol.for("backplane.network-guard");

/** Once for the whole process; further calls answer the same guard. */
export function installNetworkGuard(): NetworkGuard {
  const sockets = net.Socket.prototype as unknown as { connect: Guarded };
  const present = sockets.connect[INSTALLED];
  if (present !== undefined) return present;
  const running = new AsyncLocalStorage<GuardedPlugin | undefined>();
  const guard: NetworkGuard = {
    enter: (plugin, work) => running.run(plugin, work),
    leave: (work) => running.run(undefined, work),
  };
  const { connect } = sockets;
  const guarded: Guarded = function (this: net.Socket, ...args: unknown[]) {
    const plugin = running.getStore();
    const refusal = plugin === undefined ? null : refusalOf(plugin, targetOf(args));
    if (refusal === null) return connect.apply(this, args);
    // As a connection that fails does: later, and by its event.
    process.nextTick(() => this.destroy(refusal));
    return this;
  };
  guarded[INSTALLED] = guard;
  sockets.connect = guarded;
  guardDatagrams(running);
  return guard;
}

/** No name is looked at here: nothing that a plugin is allowed goes by UDP. */
function guardDatagrams(running: AsyncLocalStorage<GuardedPlugin | undefined>): void {
  const sockets = dgram.Socket.prototype as unknown as Record<"connect" | "send", Guarded>;
  for (const method of ["connect", "send"] as const) {
    const original = sockets[method];
    sockets[method] = function (this: dgram.Socket, ...args: unknown[]) {
      const plugin = running.getStore();
      if (plugin === undefined) return original.apply(this, args);
      throw refusal(plugin, "UDP");
    };
  }
}

/** Null: a unix socket. */
type Target = { host: string; port: number } | null;

/** The forms that `connect` takes: options, a port and a host, a path, or what `net.connect` has made of them. */
function targetOf(args: readonly unknown[]): Target {
  const [first, second] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  if (typeof first === "object" && first !== null) {
    const { host = "localhost", path, port } = first as { host?: string; port?: number; path?: string };
    return typeof path === "string" ? null : { host: String(host), port: Number(port) };
  }
  const port = Number(first);
  if (typeof first === "string" && !(port >= 0)) return null;
  return { host: typeof second === "string" ? second : "localhost", port };
}

function refusalOf(plugin: GuardedPlugin, target: Target): BackplaneError | null {
  if (target === null) return refusal(plugin, "a unix socket");
  const host = target.host.toLowerCase().replace(/\.$/, "");
  return plugin.allows(host, target.port) ? null : refusal(plugin, `${host}:${target.port}`);
}

function refusal(plugin: GuardedPlugin, place: string): BackplaneError {
  plugin.refused(place);
  return new BackplaneError("policy.denied", `${plugin.name} may not connect to ${place}`, {
    fix: "Name the host in plugin.<its name with _>.allowed_domains, and use net.fetch.",
  });
}
