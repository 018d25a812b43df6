/** Credentials that went because what they were sent to changed are on the record by their keys. */
import { auditOf, type Caller, type KernelDeps, type Store } from "@backplane/ports";

type Parts = Pick<KernelDeps, "ids" | "clock"> & { store: Pick<Store, "audit"> };

export async function auditDroppedCredentials(
  deps: Parts,
  caller: Caller,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return;
  const subject = keys.length === 1 ? keys[0]! : `${keys.length} keys`;
  await deps.store.audit.append(auditOf(deps, caller, "credential.drop", subject, { keys: [...keys] }));
}
