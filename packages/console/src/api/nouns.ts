/** The first part of every query key, and the nouns whose lists an event makes outdated. */
import type { SemanticEventType } from "@backplane/contract";

export type Noun =
  | "allow-rules"
  | "approvals"
  | "audit"
  | "audit-report"
  | "bindings"
  | "catalog"
  | "config"
  | "deliveries"
  | "frames"
  | "invocations"
  | "keys"
  | "llm"
  | "marketplace"
  | "packages"
  | "plugins"
  | "policy"
  | "providers"
  | "runs"
  | "secrets"
  | "sessions"
  | "status"
  | "traces"
  | "trusted-keys"
  | "workspaces";

const BY_SUBJECT: Record<string, readonly Noun[]> = {
  approval: ["approvals", "allow-rules", "invocations", "status"],
  binding: ["bindings", "catalog", "packages", "secrets", "status"],
  chain: ["sessions"],
  invocation: ["invocations", "status"],
  package: ["packages", "catalog", "marketplace"],
  run: ["runs", "sessions", "status"],
  session: ["sessions"],
};

export function nounsOf(type: SemanticEventType): readonly Noun[] {
  return [...(BY_SUBJECT[type.split(".")[0]!] ?? []), "audit"];
}
