/** Checks the input of a call before any code of the plugin runs. */
import { isArtifact, isObject, type Json, type MaybePromise } from "@backplane/contract";
import type { KernelDeps, SchemaIssue } from "@backplane/ports";
import { type ExportPlan, fitsBytes } from "@backplane/registry";
import { findCompactionIssues, findEventIssues } from "./contract-input.ts";
import { findHarnessIssues } from "./harness-input.ts";

/** Marks the input of a direct call to a hook as a test event, because no real change caused it. */
export function markTestEvent({ export: item }: ExportPlan, input: Json, delivered: boolean): Json {
  return item.kind === "hook" && !delivered && isObject(input) ? { ...input, test: true } : input;
}

const NO_ISSUES: readonly SchemaIssue[] = [];

/**
 * Checks the size of the input, then that it is not a reference to a file, then its schema. An event that is
 * `delivered` comes from the gateway itself. It is delivered even if a later version of the hook no longer subscribes
 * to its type. Returns no promise if the schema is checked in this thread, as for nearly every tool (benchmark
 * http.invoke).
 */
export function findInputIssues(
  plan: ExportPlan,
  input: Json,
  host: Pick<KernelDeps["host"], "input_bytes" | "artifact_bytes">,
  delivered = false,
): MaybePromise<readonly SchemaIssue[]> {
  const has_scratch = plan.grant.filesystem === "scratch";
  const max_bytes = has_scratch ? Math.max(host.input_bytes, host.artifact_bytes) : host.input_bytes;
  if (!fitsBytes(input, max_bytes)) {
    const hint = has_scratch ? "" : "; an export with filesystem = scratch accepts more, as a file";
    return [{ path: "", message: `the input is larger than ${max_bytes} bytes${hint}` }];
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
