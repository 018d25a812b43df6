/** The values behind the secret slots of a binding. They are read for each dispatch and kept nowhere else. */

import { BackplaneError, type Binding, type Grant } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";

/** Only slots that are granted and bound. */
export async function readBindingSecrets(
  deps: Pick<KernelDeps, "store" | "vault">,
  binding: Pick<Binding, "scope" | "secrets">,
  grant: Pick<Grant, "secret_slots">,
): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  const { org_id } = binding.scope;
  for (const slot of grant.secret_slots) {
    const ref = binding.secrets[slot];
    if (ref === undefined) continue;
    const name = parseSecretRef(ref, org_id);
    const sealed = name === null ? null : await deps.store.secrets.sealed(org_id, name);
    if (sealed === null) {
      throw new BackplaneError("secret.not_found", `the secret bound to ${slot} does not exist any more`);
    }
    secrets[slot] = deps.vault.open(org_id, sealed.name, sealed.ciphertext);
  }
  return secrets;
}

/** The name inside this org; another org's secret does not exist here. */
export function parseSecretRef(ref: string, org_id: string): string | null {
  const prefix = `secret://${org_id}/`;
  return ref.startsWith(prefix) ? ref.slice(prefix.length) : null;
}
