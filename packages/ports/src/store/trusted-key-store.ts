import type { TrustedKey } from "@backplane/contract";
import type { Page, PageOf } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

/** Keys that an org trusts to sign packages. A revoked key stays, so that it cannot be trusted again. */
export interface TrustedKeyStore {
  /** Throws `trusted_key.conflict` if the org has this key, revoked or not. */
  create(key: TrustedKey, records: ChangeRecords): Promise<void>;
  get(org_id: string, id: string): Promise<TrustedKey | null>;
  /** The key with this fingerprint, revoked or not. Never from a cache. */
  findByKeyId(org_id: string, key_id: string): Promise<TrustedKey | null>;
  list(org_id: string, page: Page): Promise<PageOf<TrustedKey>>;
  /** Replaces the row. Resolves to false, without writing anything, if the stored row is no longer `before`. */
  replace(before: TrustedKey, key: TrustedKey, records: ChangeRecords): Promise<boolean>;
  /** The highest version of the package that was installed with a valid signature; null if there was none. */
  findHighestSigned(org_id: string, package_id: string): Promise<string | null>;
}
