/**
 * Which log messages the servers behind should send. A server is one process for all its clients, so it is told the most
 * talkative level that anyone has asked for; each client hears what it asked for itself.
 */
import type { Kernel } from "@backplane/kernel";
import { isObject } from "./json-rpc.ts";
import { heard, type LogLevel } from "./log-levels.ts";
import type { Exchange } from "./exchange.ts";
import { silent } from "./server-work.ts";
import { serversOf } from "./view.ts";

export function createLevels(kernel: Kernel): (exchange: Exchange, level: LogLevel) => void {
  const told = new Map<string, LogLevel>();

  async function pass({ caller, view }: Exchange, level: LogLevel): Promise<void> {
    for (const { binding_id, capabilities } of await serversOf(kernel, caller, view)) {
      const before = told.get(binding_id);
      if (!isObject(capabilities.logging) || (before !== undefined && heard(level, before))) continue;
      told.set(binding_id, level);
      await kernel.servers
        .request(caller, binding_id, "logging/setLevel", { level }, silent())
        .catch(() => told.delete(binding_id));
    }
  }

  return (exchange, level) => void pass(exchange, level).catch(() => undefined);
}
