/** Audit entries for changes that a command makes to a store while its gateway is stopped. */
import { randomFillSync } from "node:crypto";
import { createIdSource, type JsonObject } from "@backplane/contract";
import type { Store } from "@backplane/ports";

/** Records a manual change to a store in its audit log, and closes the store. */
export async function recordChange(store: Store, action: string, details: JsonObject): Promise<void> {
  const ids = createIdSource(
    () => Date.now(),
    (bytes) => void randomFillSync(bytes),
  );
  try {
    await store.audit.append({
      id: ids.next("audit"),
      at: Date.now(),
      scope: { org_id: "org_local", project_id: "proj_default" },
      actor: "admin",
      action,
      subject: "store",
      details,
    });
  } finally {
    await store.close();
  }
}
