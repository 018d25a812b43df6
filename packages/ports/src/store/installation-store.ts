import type { Binding, Package } from "@backplane/contract";
import type { Facts } from "./facts.ts";

/** The rows of one installation. */
export interface InstallationRows {
  packages: readonly { row: Package; facts: Facts }[];
  /** Existing bindings that move to an installed version, with the generation that was read. */
  moved: readonly { row: Binding; expected: number; facts: Facts }[];
  created: readonly { row: Binding; facts: Facts }[];
}

export interface InstallationStore {
  /**
   * Writes all rows or none, in one transaction. Resolves to the packages in the given order; a package that exists with
   * the same bytes keeps its row. Throws `package.conflict` for other bytes, and `binding.conflict` if a binding was
   * created or changed meanwhile.
   */
  commit(rows: InstallationRows): Promise<{ row: Package; created: boolean }[]>;
}
