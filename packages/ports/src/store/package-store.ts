import type { MaybePromise, Package } from "@backplane/contract";
import type { Page, PageOf } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

export interface PackageStore {
  /**
   * Idempotent for the same bytes: resolves to the existing row. Throws `package.conflict` for the same id and version
   * with a different digest.
   */
  insert(row: Package, records: ChangeRecords): Promise<{ row: Package; created: boolean }>;
  /** Cached: read by each call (benchmark http.invoke). */
  get(org_id: string, id: string): MaybePromise<Package | null>;
  find(org_id: string, package_id: string, version: string): MaybePromise<Package | null>;
  list(org_id: string, page: Page): Promise<PageOf<Package>>;
  /**
   * Throws `package.bound` with details.bindings while a binding uses the package. Resolves to false if it does not
   * exist.
   */
  remove(org_id: string, id: string, records: ChangeRecords): Promise<boolean>;
  /** Whether any org has this digest installed; otherwise its bytes may be removed. */
  isDigestInUse(digest: string): Promise<boolean>;
}
