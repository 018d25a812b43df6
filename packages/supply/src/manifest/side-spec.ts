/**
 * The host's record of a side-process plugin: all that the protocol binds the plugin to, taken from the manifest
 * and the binding's policy alone. What the plugin says about itself later is compared with this, never added.
 */
import type { BindingPolicy, Json, Manifest } from "@backplane/contract";

export interface SideSpec {
  plugin_id: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  /** The binding's allow-list; empty grants nothing. */
  capabilities: string[];
  /** Under the plugin's own names, each with the time that a call has. */
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
