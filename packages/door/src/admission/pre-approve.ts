/**
 * Asks a tool whether it denies an admitted call (`preApprove` of a kernel tool). The answer can only refuse: a call
 * that the tool does not deny still needs every approval that the policy requires. A tool that fails to answer denies.
 */

import { isObject, type MaybePromise } from "@backplane/contract";
import type { DoorBindings } from "../tools/bound-tools.ts";
import type { Admitted, RefusedCall } from "./admit.ts";

const RULE = "pre_approve";

/** Returns no promise if nothing has to be asked (benchmark http.invoke). */
export function preApprove(
  { bindings }: { bindings: Pick<DoorBindings, "tool"> },
  verdict: Admitted | RefusedCall,
): MaybePromise<Admitted | RefusedCall> {
  if (verdict.verdict === "refused") return verdict;
  const { call } = verdict;
  const tool = bindings.tool(call.plan.bound.binding.binding_id);
  if (tool?.preApprove === undefined) return verdict;
  const args = isObject(call.input) ? call.input : {};
  return tool.preApprove(args).then((passed) => {
    if (passed) return verdict;
    const message = `The tool ${tool.spec.name} denied this call, or did not answer, before an approval was requested.`;
    return {
      verdict: "refused",
      call,
      rule: RULE,
      code: "policy.denied",
      message,
      details: { rule: RULE },
      fix: undefined,
      needs_approval: false,
    };
  });
}
