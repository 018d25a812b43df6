/** A tool of the gateway itself: it belongs to no plugin, runs in the gateway, and lives as long as that. */
import type { RegisteredTool } from "@backplane/ports";

/** Who a core tool belongs to, where tools name their plugin. */
export const CORE = "backplane";

export function coreTool(
  version: string,
  own: Pick<RegisteredTool, "spec" | "run" | "brief">,
): RegisteredTool {
  return {
    ...own,
    plugin: CORE,
    version,
    mode: "inline",
    origin: "core",
    installed_at: "",
    legacy: false,
    generation: 1,
  };
}

/** Of a tool that asks nobody, or whose arguments say it all. */
export function noBrief(): Promise<null> {
  return Promise.resolve(null);
}

export const SAMPLING_TOOL = "model_sampling";

export const REQUEST_TOOL = "server_request";

/** Offered to admins alone. */
export const ADMIN_TOOLS: readonly string[] = ["plugins_list", "plugin_install", "plugin_unload"];
