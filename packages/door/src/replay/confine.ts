/**
 * The binding that a replay uses instead of the stored binding: its own processes, no network, no rights on the gateway
 * or the host, read-only mounts, and placeholders for secrets. A call with this grant can change nothing outside its
 * sandbox.
 */
import type { Binding, Grant, PluginExport, Protocol } from "@backplane/contract";

/** Never valid anywhere, but a program that requires a value starts with it. */
const PLACEHOLDER_SECRET = "replay-without-secret";

/**
 * Protocols whose processes can run in their own sandbox. A remote server is reached over the network, and
 * instruments have data that outlives a call.
 */
const REPLAYABLE: ReadonlySet<Protocol> = new Set<Protocol>(["vai.rpc.v1", "mcp.stdio", "module.tools"]);

export function isReplayable(protocol: Protocol): boolean {
  return REPLAYABLE.has(protocol);
}

export function confineBinding(binding: Binding, binding_id: string): Binding {
  const {
    host_target: _host,
    sampling: _model,
    class: execution_class,
    mounts = [],
    ...policy
  } = binding.policy;
  return {
    ...binding,
    binding_id,
    status: "active",
    unbound_slots: [],
    rollout: { traffic_percent: 100 },
    policy: {
      ...policy,
      ...(execution_class === undefined
        ? {}
        : { class: execution_class === "inline" ? "worker" : execution_class }),
      allowed_domains: [],
      mounts: mounts.map((mount) => ({ ...mount, writable: false })),
      permissions: { ...policy.permissions, network: "none", gateway_api_scopes: [] },
    },
  };
}

/**
 * An MCP server declares no effect class, but may declare that a tool only reads. The author's claim is enough here,
 * because a call with this grant can change nothing anyway; it is not enough to run a real call twice.
 */
export function isReadOnlyTool(item: PluginExport): boolean {
  if (item.kind !== "tool") return false;
  const { effect_class, hints } = item.tool;
  return effect_class === "read_only" || (effect_class === "unknown" && hints?.readOnlyHint === true);
}

export function buildPlaceholderSecrets({
  secret_slots,
}: Pick<Grant, "secret_slots">): Record<string, string> {
  return Object.fromEntries(secret_slots.map((slot) => [slot, PLACEHOLDER_SECRET]));
}
