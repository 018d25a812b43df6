export { createBus } from "./bus/bus.ts";
export type { Bus, BusPort, KernelPort, KernelPublishOptions, PluginRegistration } from "./bus/bus-port.ts";
export { PublishRules } from "./bus/publish-rules.ts";
export { checkClientSessionId, createModelBridgeId, findSessionIdProblem } from "./bus/session-ids.ts";
export { buildCompaction } from "./compaction/build-compaction.ts";
export { classifyEntries } from "./compaction/loss.ts";
export { findChainEntry, restorePinned } from "./compaction/pinned.ts";
export { type CompactionPublisher, createCompactionPublisher } from "./compaction/publish-compaction.ts";
export { omitLargeData, projectContent, restoreContent } from "./compaction/projected-content.ts";
export {
  copyEntry,
  findRetained,
  originalId,
  type RetainedEntries,
  type RetentionPolicy,
  selectRetained,
} from "./compaction/retained.ts";
export { estimateCompacted, estimateTokens } from "./compaction/tokens.ts";
export { createSessionModule, type SessionModule } from "./session-module.ts";
export { blockOf, entryFromBlock } from "./sessions/blocks.ts";
export { ContextBuilder, contextOf } from "./sessions/context.ts";
export { DEFAULT_WORKSPACE, LiveSessions } from "./sessions/live-sessions.ts";
export {
  createPersister,
  type Persister,
  type PersisterDeps,
  type TapeFeed,
  type TapeItem,
  type WrittenItem,
} from "./sessions/persister.ts";
export { sessionMapKey } from "./sessions/session-map-key.ts";
export {
  type ChainCompaction,
  createSessions,
  type HydratedSession,
  type SessionDeps,
  type Sessions,
} from "./sessions/sessions.ts";
export { type TapedEntry, type TapedEvent, toTapedEntry } from "./sessions/taped-entry.ts";
export { share, snapshot } from "./snapshot/snapshot.ts";
export type { CallProgressFeed } from "./tape/call-progress.ts";
export type { HarnessTape } from "./tape/harness-tape.ts";
export { displayText, type ToolOutcomeEvent, toolErrorOutcome } from "./tape/tool-outcome.ts";
export { createTurnTape, type TurnCall, type TurnTape, turnOf } from "./tape/turn-tape.ts";
