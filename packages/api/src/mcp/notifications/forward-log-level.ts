/**
 * Forwards `logging/setLevel` to the bound servers. A server is one process for all clients, so it gets the least
 * severe level that any client of its project has set; messages are filtered for each client by its own level. If the
 * process is replaced, the runner sets the level in the new one.
 */
import { isObject } from "@backplane/contract";
import type { Kernel } from "@backplane/ports";
import { sendServerRequest } from "../lists/send-server-request.ts";
import { listViewServers } from "../lists/view.ts";
import { isLogged, type LogLevel } from "../protocol/log-levels.ts";
import type { McpExchange } from "../session/exchange.ts";

export function createLogLevelForwarding(kernel: Kernel): (exchange: McpExchange, level: LogLevel) => void {
  const forwarded = new Map<string, LogLevel>();

  async function forward({ caller, view }: McpExchange, level: LogLevel): Promise<void> {
    for (const { binding_id, capabilities } of await listViewServers(kernel, caller, view)) {
      // A binding may belong to the whole organization, but each project has its own process.
      const key = `${binding_id}\n${caller.scope.project_id}`;
      const current = forwarded.get(key);
      if (!isObject(capabilities.logging) || (current !== undefined && isLogged(level, current))) continue;
      forwarded.set(key, level);
      await sendServerRequest(kernel, caller, binding_id, "logging/setLevel", { level }).catch(() =>
        forwarded.delete(key),
      );
    }
  }

  return (exchange, level) => void forward(exchange, level).catch(() => undefined);
}
