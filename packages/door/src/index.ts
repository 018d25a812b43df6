export { type AdmissionState, RULES, type RuleInput } from "./admission/rules.ts";
export {
  admitServerRequest,
  filterCapabilities,
  findFeature,
  planServerFeature,
  type ServerFeature,
} from "./admission/server-features.ts";
export { listChangedParts, readUseCoverage } from "./approval/coverage.ts";
export { SLOT_TTL_MS } from "./calls/concurrency.ts";
export { cancelledBy, failedWith } from "./calls/ending.ts";
export { type Coverage, LiveCall, LiveCalls } from "./calls/live-calls.ts";
export { createRedactor } from "./calls/redact.ts";
export { assumeValidRoot, type Revocation } from "./calls/revocation.ts";
export { createToolCatalog, SEARCH_TOOL, type ToolCatalog } from "./catalog/catalog.ts";
export type { OfferedTool } from "./catalog/offered-tool.ts";
export { searchTools } from "./catalog/search-tools.ts";
export { type CallState, createCallState, createDoorModule, type DoorModule } from "./door-module.ts";
export { openIdempotent } from "./idempotency/idempotency.ts";
export { applyCancelRequests, stopCall } from "./invoke/cancel.ts";
export type { Door, SamplingAccess, SamplingCaller } from "./invoke/door.ts";
export { invoke } from "./invoke/invoke.ts";
export { computeRemainingTime, recoverCalls, resumeApprovals } from "./invoke/recover.ts";
export { releaseToOtherNode, settle } from "./invoke/settle.ts";
export { openArtifact } from "./invoke/store-content.ts";
export { toDelegatedCaller } from "./keys/authenticate.ts";
export { Heartbeat } from "./node/heartbeat.ts";
export { NodeLease } from "./node/node-lease.ts";
export { StoreWait } from "./node/store-wait.ts";
export { findSuccessor } from "./open/find-successor.ts";
export { Deliverer } from "./outbox/deliver.ts";
export { Dispatcher } from "./outbox/dispatcher.ts";
export { Retention } from "./retention/retention.ts";
export { coreBindingId, type DoorBindings, withKernelTools } from "./tools/bound-tools.ts";
export {
  ACTION_TOOL,
  CORE_PLUGIN,
  createCoreTool,
  noBrief,
  REQUEST_TOOL,
  SAMPLING_TOOL,
} from "./tools/core-tool.ts";
export { INSTRUMENT_COLLISION, selectListed } from "./tools/precedence.ts";
