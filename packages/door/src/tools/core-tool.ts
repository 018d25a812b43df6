/** A tool of the gateway itself. It belongs to no plugin and exists as long as the gateway runs. */
import type { RegisteredTool } from "@backplane/ports";

/** The plugin name of core tools. */
export const CORE_PLUGIN = "backplane";

export function createCoreTool(
  version: string,
  tool: Pick<RegisteredTool, "spec" | "run" | "brief">,
): RegisteredTool {
  return {
    ...tool,
    plugin: CORE_PLUGIN,
    version,
    mode: "inline",
    origin: "core",
    installed_at: "",
    legacy: false,
    generation: 1,
  };
}

/** The approval brief of a tool that needs no approval, or whose arguments are brief enough. */
export function noBrief(): Promise<null> {
  return Promise.resolve(null);
}

/** Answers sampling requests from MCP servers with the gateway's model. */
export const SAMPLING_TOOL = "model_sampling";

/** Lets clients read resources and prompts of MCP servers. */
export const REQUEST_TOOL = "server_request";

/** Lets a harness ask for permission to act. */
export const ACTION_TOOL = "harness_action";

/** Offered only to the admin token and to keys with the scope `admin`. */
export const ADMIN_TOOLS: readonly string[] = ["plugins_list", "plugin_install", "plugin_unload"];
