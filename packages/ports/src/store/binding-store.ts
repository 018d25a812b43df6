import type { Binding, ExportKind, MaybePromise, Package, SemanticEventType } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { Facts } from "./facts.ts";

/** A binding with the package that it binds: all that the door needs to know of an export. */
export interface BoundPackage {
  binding: Binding;
  package: Package;
  /** The stored binding is one of the whole package; `binding` shows it as that of one tool. */
  whole?: boolean;
  /** Digest of the definitions that stand in place of the manifest's exports. */
  described?: string;
}

export interface BindingStore {
  /** Throws `binding.conflict` when the same export version is bound in this very scope. */
  create(row: Binding, facts: Facts): Promise<void>;
  /** Writes `row` if the stored generation is still `expected`; false otherwise. */
  update(row: Binding, expected: number, facts: Facts): Promise<boolean>;
  /** All of them or none, in one transaction. Throws `binding.conflict` when one has changed since. */
  updateAll(changes: readonly { row: Binding; expected: number; facts: Facts }[]): Promise<void>;
  /** With `expected` only if that is still its generation. */
  remove(scope: Scope, id: string, facts: Facts, expected?: number): Promise<boolean>;
  /** Visible to `scope`: its own and the org's. */
  get(scope: Scope, id: string): MaybePromise<BoundPackage | null>;
  list(
    scope: Scope,
    filter: { kind?: ExportKind; package_id?: string },
    page: Page,
  ): Promise<PageOf<Binding>>;
  /**
   * Every binding of this export and of whole packages that `scope` can see, whatever its status or version. Always
   * fresh.
   */
  candidates(scope: Scope, export_id: string, package_id?: string): MaybePromise<BoundPackage[]>;
  /** Active bindings visible to `scope`, for discovery. */
  discover(scope: Scope, kind: ExportKind): MaybePromise<BoundPackage[]>;
  /** Active bindings of whole packages, of all orgs: what a gateway looks after when it starts. */
  whole(): Promise<BoundPackage[]>;
  /** Active hook bindings that want this event and can see its scope. */
  hooksFor(scope: Scope, event: SemanticEventType): Promise<BoundPackage[]>;
  /** binding_ids of the org that refer to this secret. */
  usingSecret(org_id: string, ref: string): Promise<string[]>;
}
