/**
 * The kernel's admin services: the facade with JSON arguments and results, for adapter plugins that
 * the operator allows to use them. Each service acts with the rights of the caller whose request the plugin handles.
 */

import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import type { Caller, Kernel, SessionRef } from "@backplane/ports";
import type { KernelService, ServiceIdentity } from "../plugins/plugins-port.ts";
import { flag, integer, list, object, optional, text } from "./arguments.ts";

type Facade = Pick<Kernel, "config" | "plugins" | "providers" | "sessions">;
type Serve = (caller: Caller, args: JsonObject) => Promise<unknown>;

export function createAdminServices(kernel: Facade): [string, KernelService][] {
  const { config, plugins, providers, sessions } = kernel;
  const services: Record<string, Serve> = {
    "config.list": (caller) => config.list(caller),
    "config.get": (caller, args) => config.get(caller, text(args, "key"), { show: flag(args, "show") }),
    "config.set": (caller, args) => config.set(caller, object(args, "values")),
    "config.unset": (caller, args) => config.unset(caller, text(args, "pattern")),

    "plugins.list": (caller) => plugins.list(caller),
    "plugins.enable": (caller, args) => plugins.setEnabled(caller, text(args, "name"), flag(args, "enabled")),
    "plugins.trust": (caller, args) => plugins.setTrusted(caller, text(args, "name"), flag(args, "trusted")),
    "plugins.inspect": (caller, args) => plugins.inspect(caller, text(args, "source")),
    "plugins.install": (caller, args) =>
      plugins.install(caller, text(args, "source"), { editable: flag(args, "editable") }),
    "plugins.reload": (caller, args) => plugins.reload(caller, text(args, "name")),
    "plugins.remove": (caller, args) => plugins.remove(caller, text(args, "name")),
    "plugins.health": (caller, args) => plugins.health(caller, integer(args, "timeout_ms")),

    "providers.list": (caller, args) => providers.list(caller, { show: flag(args, "show") }),
    "providers.create": (caller, args) =>
      providers.create(caller, {
        plugin: text(args, "plugin"),
        ...optional(args, "id", text),
        ...optional(args, "label", text),
        ...optional(args, "config", object),
      }),
    "providers.patch": (caller, args) =>
      providers.patch(caller, text(args, "id"), {
        ...optional(args, "label", text),
        ...optional(args, "config", object),
      }),
    "providers.remove": (caller, args) => providers.remove(caller, text(args, "id")),
    "providers.activate": (caller, args) => providers.setActive(caller, text(args, "id")),
    "providers.test": (caller, args) => providers.test(caller, text(args, "id")),

    "sessions.list": (caller, args) =>
      sessions.list(
        caller,
        { ...optional(args, "workspace", text) },
        { limit: integer(args, "limit"), ...optional(args, "after", text) },
      ),
    "sessions.get": (caller, args) => sessions.get(caller, refOf(args)),
    "sessions.create": (caller, args) =>
      sessions.create(caller, {
        ...optional(args, "session_id", text),
        ...optional(args, "workspace", text),
        ...optional(args, "metadata", object),
        ...optional(args, "strategy", text),
      }),
    "sessions.entries": (caller, args) =>
      sessions.listEntries(caller, refOf(args), integer(args, "after"), integer(args, "limit")),
    "sessions.message": (caller, args) =>
      sessions.sendMessage(caller, refOf(args), {
        text: text(args, "text"),
        ...optional(args, "attachments", list),
      }),
    "sessions.interrupt": (caller, args) => sessions.interrupt(caller, refOf(args)),
    "sessions.fork": (caller, args) =>
      sessions.fork(caller, refOf(args), {
        ...optional(args, "child_id", text),
        ...optional(args, "at", integer),
      }),
    "sessions.reset": (caller, args) =>
      sessions.reset(caller, refOf(args), { ...optional(args, "archive", flag) }),
    "sessions.handoff": (caller, args) =>
      sessions.handOff(caller, refOf(args), { name: text(args, "name"), state: object(args, "state") }),
    "sessions.compact": (caller, args) => sessions.compact(caller, refOf(args)),
    "sessions.undo": (caller, args) => sessions.undoCompaction(caller, refOf(args)),
  };
  return Object.entries(services).map(([name, serve]) => [
    name,
    async (args, identity) => ((await serve(requireCaller(name, identity), args)) ?? null) as Json,
  ]);
}

function requireCaller(name: string, { caller }: ServiceIdentity): Caller {
  if (caller !== null) return caller;
  throw new BackplaneError(
    "auth.missing",
    `${name} acts for a caller: pass the \`as\` of the request that the plugin is handling.`,
  );
}

function refOf(args: JsonObject): SessionRef {
  return { session_id: text(args, "session_id"), ...optional(args, "workspace", text) };
}
