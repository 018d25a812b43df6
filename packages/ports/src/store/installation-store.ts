import type { Binding, Package } from "@backplane/contract";
import type { ChangeRecords } from "./change-records.ts";

/** A new highest signed version. It is not stored if another installation has stored a higher one meanwhile. */
export interface HighestSigned {
  version: string;
}

/** The rows of one installation. */
export interface InstallationRows {
  packages: readonly { row: Package; records: ChangeRecords; highest?: HighestSigned }[];
  /** Existing bindings that are changed to an installed version, with the generation that was read. */
  moved: readonly { row: Binding; expected: number; records: ChangeRecords }[];
  created: readonly { row: Binding; records: ChangeRecords }[];
  /** Bindings to remove, with the generation that was read. Removed first, so that others can use their versions. */
  removed?: readonly RemovedBinding[];
  /** The revision of the org's bindings at which the names of servers were free; null if none was checked. */
  expected_revision?: number | null;
}

export interface RemovedBinding {
  row: Binding;
  records: ChangeRecords;
  /** Keeps the configuration for a later binding of the package in the same scope (`BindingStore.getKeptConfig`). */
  keeps_config?: boolean;
}

export interface InstallationStore {
  /**
   * Writes all rows or none, in one transaction. Resolves to the packages in the given order; a package that exists
   * with the same bytes keeps its row. Throws `package.conflict` for other bytes, and `binding.conflict` if a binding
   * was created or changed meanwhile, with `expected_revision` like BindingStore.create.
   */
  commit(rows: InstallationRows): Promise<{ row: Package; created: boolean }[]>;
}
