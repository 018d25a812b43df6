/**
 * Seals secrets, configuration values and sign-ins again under the newest master key, in small transactions. Each row
 * records the key that sealed it, so an interrupted rotation can be repeated, and a value that is written at the same
 * time is never overwritten.
 */

import type { SecretKeyRotation } from "@backplane/contract";
import { buildAudit, type Caller, type KernelDeps, requireHostAdmin, type SealedRow } from "@backplane/ports";
import { configSealName } from "../config/live-config.ts";
import { signInSealName } from "./sign-in-record.ts";

const BATCH_ROWS = 100;
const SEALED_KINDS: readonly SealedRow["kind"][] = ["secret", "config", "sign_in"];
/** The name under which each kind of row was sealed. */
const SEAL_NAMES: Record<SealedRow["kind"], (name: string) => string> = {
  secret: (name) => name,
  config: configSealName,
  sign_in: signInSealName,
};
/** A row that another gateway writes at the same moment is tried again in the next pass. */
const MAX_PASSES = 3;

export async function rotateKey(
  deps: Pick<KernelDeps, "store" | "vault" | "ids" | "clock">,
  caller: Caller,
  { new_key }: { new_key: boolean },
): Promise<SecretKeyRotation> {
  requireHostAdmin(caller, "change the master key, which all organizations share");
  const { vault, store } = deps;
  if (new_key) vault.addKey();
  const { id: key_id } = vault.keys()[0]!;
  await store.audit.append(buildAudit(deps, caller, "secret.rotate_key", key_id, { new_key }));
  const resealed = { secret: 0, config: 0, sign_in: 0 };
  let unreadable: SealedRow[] = [];
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    unreadable = [];
    let conflicts = 0;
    for (const kind of SEALED_KINDS) conflicts += await reseal(deps, kind, resealed, unreadable);
    if (conflicts === 0) break;
  }
  const unreadable_keys = new Set(
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
      .filter((id) => !unreadable_keys.has(id)),
  };
}

/** Adds to `resealed` and `unreadable`. Returns the number of rows that were changed in the meantime. */
async function reseal(
  { vault, store }: Pick<KernelDeps, "store" | "vault">,
  kind: SealedRow["kind"],
  resealed: Record<SealedRow["kind"], number>,
  unreadable: SealedRow[],
): Promise<number> {
  const { prefix } = vault.keys()[0]!;
  let conflicts = 0;
  let after = { org_id: "", name: "" };
  for (;;) {
    const rows = await store.sealed.list(kind, prefix, after, BATCH_ROWS);
    const changes: { row: SealedRow; ciphertext: string }[] = [];
    for (const row of rows) {
      const name = SEAL_NAMES[kind](row.name);
      try {
        const value = vault.open(row.org_id, name, row.ciphertext);
        changes.push({ row, ciphertext: vault.seal(row.org_id, name, value) });
      } catch {
        unreadable.push(row);
      }
    }
    const replaced = changes.length === 0 ? 0 : await store.sealed.replace(changes);
    resealed[kind] += replaced;
    conflicts += changes.length - replaced;
    if (rows.length < BATCH_ROWS) return conflicts;
    after = rows.at(-1)!;
  }
}
