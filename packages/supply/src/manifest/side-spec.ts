/**
 * The host's record of a side-process plugin: what the protocol allows the plugin, taken from the manifest and the policy
 * of the binding alone. What the plugin later declares about itself is compared with this record and never added to it.
 */
import type { BindingPolicy, Json, Manifest } from "@backplane/contract";

export interface SideSpec {
  plugin_id: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  /** The allow-list of the binding; empty allows nothing. */
  capabilities: string[];
  /** By the plugin's own names, each with the timeout of a call. */
  tools: { name: string; timeout_ms: number; description: string; schema: Json | null }[];
}

export function sideSpec(
  manifest: Manifest,
  policy: Pick<BindingPolicy, "capabilities" | "timeout_ms"> = {},
  schemas: Record<string, Json> = {},
): SideSpec {
  const [command = "", ...args] = manifest.runtime.entrypoint;
  return {
    plugin_id: manifest.runtime.plugin_id ?? manifest.package_id,
    command,
    args,
    env: { ...manifest.runtime.env },
    capabilities: [...(policy.capabilities ?? [])],
    tools: manifest.exports.flatMap((item) => {
      if (item.kind !== "tool") return [];
      const { input_schema } = item.tool;
      return [
        {
          name: item.tool.tool_name ?? item.id,
          timeout_ms: policy.timeout_ms ?? item.default_timeout_ms,
          description: item.description ?? item.display_name ?? "",
          schema: input_schema === undefined ? null : (schemas[input_schema] ?? null),
        },
      ];
    }),
  };
}
