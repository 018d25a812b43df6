/**
 * A new master key (or the newest there is) for everything that is sealed: read under the old one, sealed under the
 * new one, in small transactions. A row says itself which key sealed it, so a run that was cut off is simply begun
 * again, and a value that is written meanwhile is never overwritten.
 */

import { BackplaneError, type SecretKeyRotation } from "@backplane/contract";
import { auditOf, type Caller, type KernelDeps, type SealedRow } from "@backplane/ports";
import { configSealName } from "../config/live-config.ts";
import { signInSealName } from "./sign-in-record.ts";

const BATCH = 100;
const KINDS: readonly SealedRow["kind"][] = ["secret", "config", "sign_in"];
/** The name that a text was sealed for. */
const SEALED_AS: Record<SealedRow["kind"], (name: string) => string> = {
  secret: (name) => name,
  config: configSealName,
  sign_in: signInSealName,
};
/** Who loses a race against a writer of another gateway looks again. */
const PASSES = 3;

export async function rotateKey(
  deps: Pick<KernelDeps, "store" | "vault" | "ids" | "clock">,
  caller: Caller,
  { new_key }: { new_key: boolean },
): Promise<SecretKeyRotation> {
  if (caller.actor !== "admin") {
    throw new BackplaneError("policy.denied", "only the admin token may change the key of all orgs");
  }
  const { vault, store } = deps;
  if (new_key) vault.addKey();
  const { id: key_id } = vault.keys()[0]!;
  await store.audit.append(auditOf(deps, caller, "secret.rotate_key", key_id, { new_key }));
  const resealed = { secret: 0, config: 0, sign_in: 0 };
  let unreadable: SealedRow[] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    unreadable = [];
    let lost = 0;
    for (const kind of KINDS) lost += await reseal(deps, kind, resealed, unreadable);
    if (lost === 0) break;
  }
  const still = new Set(
    vault
      .keys()
      .flatMap(({ id, prefix }) =>
        unreadable.some(({ ciphertext }) => ciphertext.startsWith(prefix)) ? [id] : [],
      ),
  );
  return {
    key_id,
    secrets: resealed.secret,
    config_values: resealed.config,
    sign_ins: resealed.sign_in,
    unreadable: unreadable.map(({ kind, org_id, name }) => ({ kind, org_id, name })),
    unused_keys: vault
      .keys()
      .slice(1)
      .map(({ id }) => id)
      .filter((id) => !still.has(id)),
  };
}

async function reseal(
  { vault, store }: Pick<KernelDeps, "store" | "vault">,
  kind: SealedRow["kind"],
  resealed: Record<SealedRow["kind"], number>,
  unreadable: SealedRow[],
): Promise<number> {
  const { prefix } = vault.keys()[0]!;
  let lost = 0;
  let after = { org_id: "", name: "" };
  for (;;) {
    const rows = await store.sealed.list(kind, prefix, after, BATCH);
    const changes: { row: SealedRow; ciphertext: string }[] = [];
    for (const row of rows) {
      const name = SEALED_AS[kind](row.name);
      try {
        const value = vault.open(row.org_id, name, row.ciphertext);
        changes.push({ row, ciphertext: vault.seal(row.org_id, name, value) });
      } catch {
        unreadable.push(row);
      }
    }
    const replaced = changes.length === 0 ? 0 : await store.sealed.replace(changes);
    resealed[kind] += replaced;
    lost += changes.length - replaced;
    if (rows.length < BATCH) return lost;
    after = rows.at(-1)!;
  }
}
