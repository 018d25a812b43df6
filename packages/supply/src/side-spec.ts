/**
 * The host's record of a side-process plugin: all that the protocol binds the plugin to, taken from the manifest
 * and the binding's policy alone. What the plugin says about itself later is compared with this, never added.
 */
import { type BindingPolicy, type Json, type Manifest, SIDE_TIMEOUTS } from "@backplane/contract";

export interface SideSpec {
  plugin_id: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  timeout_ms: number;
  /** The binding's allow-list; empty grants nothing. */
  capabilities: string[];
  tools: { name: string; description: string; schema: Json | null }[];
}

export function sideSpec(
  manifest: Manifest,
  policy: Pick<BindingPolicy, "capabilities" | "timeout_ms"> = {},
  schemas: Record<string, Json> = {},
): SideSpec {
  const [command = "", ...args] = manifest.runtime.entrypoint;
  return {
    plugin_id: manifest.package_id,
    command,
    args,
    env: { ...manifest.runtime.env },
    timeout_ms: policy.timeout_ms ?? SIDE_TIMEOUTS.invoke_ms,
    capabilities: [...(policy.capabilities ?? [])],
    tools: manifest.exports.flatMap((item) => {
      if (item.kind !== "tool") return [];
      const { input_schema } = item.tool;
      return [
        {
          name: item.id,
          description: item.description ?? item.display_name ?? "",
          schema: input_schema === undefined ? null : (schemas[input_schema] ?? null),
        },
      ];
    }),
  };
}
