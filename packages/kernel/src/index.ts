export { createBus } from "./bus/bus.ts";
export type * from "./bus/bus-port.ts";
export { checkClientSessionId, clientSessionIdProblem } from "./bus/session-ids.ts";
export type { GrantLevel, HostPolicy, KernelDeps } from "./deps.ts";
export type * from "./facade.ts";
export type * from "./facade-agent.ts";
export type * from "./facade-servers.ts";
export type * from "./facade-agent.ts";
export { createFanout, type FanoutDeps, type FanoutService } from "./fanout/fanout.ts";
export { hostPolicy } from "./host-policy.ts";
export { unheard } from "./ports/ask.ts";
export type { Ask } from "./ports/ask.ts";
export { createKernel } from "./kernel.ts";
export { createPluginSystem } from "./plugins/plugin-system.ts";
export type * from "./plugins/plugins-port.ts";
export { isPluginGrantKey } from "./plugins/settings.ts";
export type * from "./ports/index.ts";
export { placeOfUrl } from "./providers/place.ts";
export { blockOf, entryOfBlock } from "./sessions/blocks.ts";
export { contextOf } from "./sessions/context.ts";
export { entryFor, type TapedEntry, type TapedEvent } from "./sessions/entry-for.ts";
export {
  createPersister,
  type Persister,
  type PersisterDeps,
  type TapeFeed,
  type TapeItem,
  type WrittenItem,
} from "./sessions/persister.ts";
export {
  type Compaction,
  createSessions,
  type Hydrated,
  type SessionDeps,
  type Sessions,
} from "./sessions/sessions.ts";
export { tapeName } from "./sessions/tape-name.ts";
