/** A tool that requires approval, and a call to this tool that awaits approval. */
import type { Approval } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";

export const removalManifest = manifest([
  toolExport("rm", {}, { effect_class: "non_idempotent_write", requires_approval: true }),
]);

export async function requestRemoval(
  fixture: TestKernel,
  input: object = { path: "a" },
  session_id?: string,
) {
  const body = {
    export_id: "rm",
    input: input as never,
    ...(session_id === undefined ? {} : { session_id }),
  };
  const ticket = await fixture.kernel.invocations.invoke(user, body);
  const id = ticket.invocation.approval_id;
  const approval = id === null ? null : await fixture.kernel.approvals.get(user, id);
  return { ticket, approval: approval as Approval };
}
