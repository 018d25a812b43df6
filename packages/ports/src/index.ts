export {
  buildAudit,
  HOST_ADMIN,
  hasRole,
  isWholeOrg,
  requireHostAdmin,
  requireOperator,
  requireScope,
  requireWholeOrg,
  requireWriter,
  withChannel,
} from "./caller/caller.ts";
export type * from "./host/artifact-files.ts";
export type * from "./host/clock.ts";
export type * from "./host/log.ts";
export type * from "./host/marketplace-catalogs.ts";
export { type Operation, requireNotCancelled, unwatchedOperation } from "./host/operation.ts";
export type * from "./host/package-files.ts";
export type * from "./host/plugin-loader.ts";
export type * from "./host/runner.ts";
export type * from "./host/schemas.ts";
export type * from "./host/shared-packages.ts";
export type * from "./host/folder-access.ts";
export type * from "./kernel/agent.ts";
export { type ChangeEvents, Changes } from "./kernel/changes.ts";
export type * from "./kernel/cognition.ts";
export type * from "./kernel/definitions.ts";
export type * from "./kernel/deps.ts";
export { hostPolicy } from "./kernel/host-policy.ts";
export type * from "./kernel/instruments.ts";
export type * from "./kernel/kernel.ts";
export type * from "./kernel/llm.ts";
export { type AnswerPluginRequest, answerByDefault } from "./kernel/plugin-requests.ts";
export * from "./kernel/registered-tool.ts";
export type * from "./kernel/servers.ts";
export type * from "./kernel/sign-ins.ts";
export type * from "./kernel/workspaces.ts";
export { type ChangeCause, causeOf } from "./scope/change-cause.ts";
export type * from "./scope/scope.ts";
export type * from "./store/access-store.ts";
export type * from "./store/allow-rule-store.ts";
export type * from "./store/approval-store.ts";
export type * from "./store/audit-marks.ts";
export type * from "./store/binding-store.ts";
export type * from "./store/change-records.ts";
export type * from "./store/config-store.ts";
export type * from "./store/definition-store.ts";
export type * from "./store/execution-store.ts";
export type * from "./store/installation-store.ts";
export type * from "./store/invocation-store.ts";
export type * from "./store/llm-call-store.ts";
export type * from "./store/package-store.ts";
export type * from "./store/policy-store.ts";
export type * from "./store/queue-store.ts";
export type * from "./store/run-store.ts";
export type * from "./store/sampling-store.ts";
export type * from "./store/session-store.ts";
export type * from "./store/sign-in-store.ts";
export type * from "./store/store.ts";
export type * from "./store/store-summary.ts";
export type * from "./store/trusted-key-store.ts";
