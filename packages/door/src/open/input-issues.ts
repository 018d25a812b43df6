/** What is wrong with the input of a call, before anything of the plugin runs: its size, then its schema. */

import { isArtifact, type Json } from "@backplane/contract";
import type { KernelDeps, SchemaIssue } from "@backplane/ports";
import { type ExportPlan, fitsBytes } from "@backplane/registry";

const NO_ISSUES: readonly SchemaIssue[] = [];

export function inputIssues(
  plan: ExportPlan,
  input: Json,
  host: Pick<KernelDeps["host"], "input_bytes" | "artifact_bytes">,
): readonly SchemaIssue[] | Promise<readonly SchemaIssue[]> {
  const scratch = plan.grant.filesystem === "scratch";
  const limit = scratch ? Math.max(host.input_bytes, host.artifact_bytes) : host.input_bytes;
  if (!fitsBytes(input, limit)) {
    const instead = scratch ? "" : "; an export that is granted filesystem = scratch takes more, as a file";
    return [{ path: "", message: `the input is larger than ${limit} bytes${instead}` }];
  }
  if (isArtifact(input)) {
    return [
      { path: "/transport", message: "is the gateway's own word for large input; send the input itself" },
    ];
  }
  if (plan.checkInput !== null) return plan.checkInput(input);
  if (plan.export.kind !== "tool" && (typeof input !== "object" || input === null || Array.isArray(input))) {
    return [{ path: "", message: `the input of a ${plan.export.kind} is an object` }];
  }
  return NO_ISSUES;
}
