/** Reads the values behind the secret slots of a binding. They are read for each dispatch and are not cached. */

import { BackplaneError, type Binding, type Grant } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import { isRegistrySecret } from "./registry-credentials.ts";

/** Returns the values of the slots that are granted and bound. */
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
    const usable = name !== null && !isRegistrySecret(name);
    const sealed = usable ? await deps.store.secrets.getSealed(org_id, name) : null;
    if (sealed === null) {
      throw new BackplaneError(
        "secret.not_found",
        `The secret bound to ${slot} does not exist, or no plugin may receive it.`,
      );
    }
    secrets[slot] = deps.vault.open(org_id, sealed.name, sealed.ciphertext);
  }
  return secrets;
}

/** Returns the name of the secret, or null when the reference is to another org. */
export function parseSecretRef(ref: string, org_id: string): string | null {
  const prefix = `secret://${org_id}/`;
  return ref.startsWith(prefix) ? ref.slice(prefix.length) : null;
}
