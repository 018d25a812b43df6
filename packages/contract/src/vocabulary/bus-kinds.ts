/**
 * The closed catalog of the kernel's bus: every public kind, who may publish it, and on which session. The payload
 * schemas are in schema/bus.ts. Any other kind must be an extension `x.<prefix>.…`, owned by one plugin.
 */

/** The categories of kernel plugins. */
export const PLUGIN_CATEGORIES = ["adapter", "tool", "llm-provider", "strategy", "memory", "skill"] as const;
export type PluginCategory = (typeof PLUGIN_CATEGORIES)[number];

/** The session of the control plane. It has no messages and is never persisted. */
export const KERNEL_SESSION = "kernel";
/** `_bridge:<plugin>` and `_bridge:<plugin>:…` are that plugin's private sessions. */
export const BRIDGE_PREFIX = "_bridge:";
/**
 * The sessions of model calls that the kernel makes outside a conversation, `_bridge:<name>:<uuid>`. They have no tape
 * and no watchers, and every provider may answer there.
 */
export const MODEL_BRIDGES = [
  "web-api-test",
  "compaction",
  "cognition",
  "sampling",
  "embedding",
  "llm-endpoint",
] as const;
export type ModelBridge = (typeof MODEL_BRIDGES)[number];
/** The session of the events about MCP servers. */
export const MCP_BRIDGE_SESSION = `${BRIDGE_PREFIX}mcp-bridge`;
/** Separates parent and child in the session id of a sub-agent; the number of occurrences is the depth. */
export const AGENT_SEPARATOR = "::agent::";
/** Extension prefixes that only bundled plugins may register. */
export const BUNDLED_PREFIXES = ["mcp", "agent", "loop", "harness"] as const;

export const BUS_LIMITS = {
  /** Events queued per session; when the queue is full, `publish` waits. */
  queue: 1_000,
  /** Extra capacity for events published by a handler, and the number of publishers that may wait. */
  reserve: 1_000,
  handler_ms: 30_000,
  sweep_ms: 250,
} as const;

export interface BusKindSpec {
  /** The category that may publish the kind. A skill may publish all plugin kinds except `approval.response`. */
  from: "kernel" | PluginCategory;
  /** `kernel`: only on the session `kernel`; `own`: never on that session; `any`: the kernel chooses. */
  session: "kernel" | "own" | "any";
}

const publishedBy = (from: BusKindSpec["from"], session: BusKindSpec["session"] = "own") =>
  ({ from, session }) as const satisfies BusKindSpec;

export const BUS_KINDS = {
  "user.message.received": publishedBy("adapter"),
  "user.interrupt": publishedBy("adapter"),
  "assistant.message.delta": publishedBy("kernel"),
  "assistant.message.done": publishedBy("kernel"),
  "llm.call.request": publishedBy("kernel"),
  "llm.call.delta": publishedBy("llm-provider"),
  "llm.call.response": publishedBy("llm-provider"),
  "llm.call.error": publishedBy("llm-provider"),
  "tool.call.request": publishedBy("kernel"),
  "tool.call.start": publishedBy("kernel"),
  "tool.call.result": publishedBy("tool"),
  "tool.error": publishedBy("kernel"),
  "approval.request": publishedBy("kernel", "kernel"),
  "approval.response": publishedBy("adapter", "kernel"),
  "approval.cancelled": publishedBy("kernel", "kernel"),
  "memory.query": publishedBy("kernel"),
  "memory.write": publishedBy("kernel"),
  "memory.result": publishedBy("memory"),
  "strategy.decide.request": publishedBy("kernel"),
  "strategy.decide.response": publishedBy("strategy"),
  "plugin.loaded": publishedBy("kernel", "any"),
  "plugin.reloaded": publishedBy("kernel", "any"),
  "plugin.removed": publishedBy("kernel", "any"),
  "plugin.error": publishedBy("kernel", "any"),
  "kernel.ready": publishedBy("kernel", "any"),
  "kernel.shutdown": publishedBy("kernel", "any"),
  "kernel.error": publishedBy("kernel", "any"),
  "session.started": publishedBy("kernel", "any"),
  "session.handoff": publishedBy("kernel", "any"),
  "session.reset": publishedBy("kernel", "any"),
  "session.archived": publishedBy("kernel", "any"),
  "session.forked": publishedBy("kernel", "any"),
  "session.compaction.started": publishedBy("kernel", "kernel"),
  "session.compaction.completed": publishedBy("kernel", "kernel"),
  "session.compaction.failed": publishedBy("kernel", "kernel"),
  "session.context.attached": publishedBy("kernel", "kernel"),
  "session.context.detached": publishedBy("kernel", "kernel"),
  "session.context.evicted": publishedBy("kernel", "kernel"),
  "session.replay.entry": publishedBy("kernel", "kernel"),
  "session.replay.done": publishedBy("kernel", "kernel"),
  "config.updated": publishedBy("kernel", "kernel"),
} as const satisfies Record<string, BusKindSpec>;

export type BusKind = keyof typeof BUS_KINDS;

export function isBusKind(kind: string): kind is BusKind {
  return Object.hasOwn(BUS_KINDS, kind);
}

/** The prefix of an extension kind such as `x.stats.token.counted`, or null. */
export function extensionPrefix(kind: string): string | null {
  if (kind.length > 128) return null;
  return /^x\.([a-z][a-z0-9_-]*)(?:\.[a-z0-9_-]+)+$/.exec(kind)?.[1] ?? null;
}
