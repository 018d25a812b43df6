/**
 * `net.fetch`: network access for kernel plugins, limited by the operator for each plugin
 * (`plugin.<ns>.allowed_domains`). Refused requests are recorded with the tool call, as for a call in a
 * sandbox.
 */

import {
  BackplaneError,
  type EgressRecord,
  INVOCATION_LIMITS,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { LiveCalls } from "@backplane/door";
import type { Runner } from "@backplane/ports";
import { type LiveConfig, PLUGIN_SETTINGS_SCOPE, readPluginSettings } from "@backplane/registry";
import type { KernelService } from "../plugins/plugins-port.ts";
import { integer, object, optional, text } from "./arguments.ts";

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 600_000;

export interface NetFetchDeps {
  runner: Pick<Runner, "fetch">;
  config: LiveConfig;
  live: Pick<LiveCalls, "get">;
}

export function createNetFetch({ runner, config, live }: NetFetchDeps): KernelService {
  return async (args, { plugin, call }) => {
    if (runner.fetch === undefined) {
      throw new BackplaneError("egress.unreachable", "This gateway provides no network access to plugins.");
    }
    const { allowed_domains } = await readPluginSettings(config, PLUGIN_SETTINGS_SCOPE.org_id, plugin);
    const { timeout_ms = DEFAULT_TIMEOUT_MS } = optional(args, "timeout_ms", integer);
    try {
      const response = await runner.fetch({
        url: text(args, "url"),
        method: optional(args, "method", text).method ?? "GET",
        headers: headersOf(args),
        body: optional(args, "body", text).body ?? null,
        encoding: optional(args, "encoding", text).encoding === "base64" ? "base64" : "utf8",
        timeout_ms: Math.min(Math.max(1, timeout_ms), MAX_TIMEOUT_MS),
        allowed_domains,
      });
      return response as unknown as Json;
    } catch (error) {
      const refusal = (error as BackplaneError).details?.refusal;
      const live_call = call === null ? undefined : live.get(call.invocation_id);
      if (refusal !== undefined && live_call !== undefined) {
        live_call.egress = addRefusal(live_call.egress, refusal as EgressRecord["refusals"][number]);
      }
      throw error;
    }
  };
}

function addRefusal(record: EgressRecord | null, refusal: EgressRecord["refusals"][number]): EgressRecord {
  const { refused, refusals } = record ?? { refused: 0, refusals: [] };
  const has_room = refusals.length < INVOCATION_LIMITS.refusals;
  return { refused: refused + 1, refusals: has_room ? [...refusals, refusal] : refusals };
}

function headersOf(args: JsonObject): Record<string, string> {
  const { headers = {} } = optional(args, "headers", object);
  for (const name of Object.keys(headers)) text(headers, name);
  return headers as Record<string, string>;
}
