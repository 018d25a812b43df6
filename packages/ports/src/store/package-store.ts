import type { MaybePromise, Package } from "@backplane/contract";
import type { Page, PageOf } from "../scope/scope.ts";
import type { Facts } from "./facts.ts";

export interface PackageStore {
  /**
   * Idempotent for the same bytes: answers the row that is there. Same id and version with another digest
   * throws `package.conflict`.
   */
  insert(row: Package, facts: Facts): Promise<{ row: Package; created: boolean }>;
  get(org_id: string, id: string): MaybePromise<Package | null>;
  find(org_id: string, package_id: string, version: string): MaybePromise<Package | null>;
  list(org_id: string, page: Page): Promise<PageOf<Package>>;
  /** Throws `package.bound` with details.bindings while a binding uses it. False: there was none. */
  remove(org_id: string, id: string, facts: Facts): Promise<boolean>;
  /** Whether any org still has this digest installed; its bytes may be removed when none has. */
  digestInUse(digest: string): Promise<boolean>;
}
