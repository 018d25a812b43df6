/** Checks the input of a call before any code of the plugin runs. */
import { isArtifact, isObject, type Json, type MaybePromise } from "@backplane/contract";
import type { KernelDeps, SchemaIssue } from "@backplane/ports";
import { type ExportPlan, fitsBytes } from "@backplane/registry";
import { findHarnessIssues } from "../harness/harness-input.ts";
import { findCompactionIssues, findEventIssues } from "./contract-input.ts";

/** No change caused the event of a direct call. The mark, as on an event of `:test`, lets the hook tell. */
export function markTest({ export: item }: ExportPlan, input: Json, delivered: boolean): Json {
  return item.kind === "hook" && !delivered && isObject(input) ? { ...input, test: true } : input;
}

const NO_ISSUES: readonly SchemaIssue[] = [];

/**
 * Checks the size of the input first and then its schema, before any code of the plugin runs. An event that is `delivered`
 * comes from the gateway itself. It is delivered even if a later version of the hook no longer subscribes to its type.
 */
export function findInputIssues(
  plan: ExportPlan,
  input: Json,
  host: Pick<KernelDeps["host"], "input_bytes" | "artifact_bytes">,
  delivered = false,
): MaybePromise<readonly SchemaIssue[]> {
  const scratch = plan.grant.filesystem === "scratch";
  const limit = scratch ? Math.max(host.input_bytes, host.artifact_bytes) : host.input_bytes;
  if (!fitsBytes(input, limit)) {
    const instead = scratch ? "" : "; an export with filesystem = scratch accepts more, as a file";
    return [{ path: "", message: `the input is larger than ${limit} bytes${instead}` }];
  }
  if (isArtifact(input)) {
    return [
      {
        path: "/transport",
        message: "is reserved for large input that the gateway passes as a file; send the input itself",
      },
    ];
  }
  if (plan.checkInput !== null) return plan.checkInput(input);
  switch (plan.export.kind) {
    case "tool":
      return NO_ISSUES;
    case "hook":
      return delivered ? NO_ISSUES : findEventIssues(plan.export, input);
    case "compactor":
      return findCompactionIssues(input);
    case "harness":
      return findHarnessIssues(input);
  }
}
