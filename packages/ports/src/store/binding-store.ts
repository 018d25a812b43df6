import type {
  Binding,
  ExportKind,
  JsonObject,
  MaybePromise,
  Package,
  SemanticEventType,
} from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

/** A binding with its package: everything that the door needs for an export. */
export interface BoundPackage {
  binding: Binding;
  package: Package;
  /** The stored binding covers the whole package; `binding` is its form for one tool. */
  whole?: boolean;
  /** Digest of the definitions that replace the manifest's exports. */
  definitions_digest?: string;
}

export interface BindingStore {
  /**
   * Throws `binding.conflict` if the same export version is already bound in exactly this scope. With
   * `expected_revision`, `create`, `update` and `updateAll` also throw it if any binding of the org has changed since
   * that revision; the details then contain `names_at`.
   */
  create(row: Binding, records: ChangeRecords, expected_revision?: number | null): Promise<void>;
  /** Writes `row` if the stored generation is still `expected`; otherwise resolves to false. */
  update(
    row: Binding,
    expected: number,
    records: ChangeRecords,
    expected_revision?: number | null,
  ): Promise<boolean>;
  /** Writes all rows or none, in one transaction. Throws `binding.conflict` if one has changed meanwhile. */
  updateAll(
    changes: readonly { row: Binding; expected: number; records: ChangeRecords }[],
    expected_revision?: number | null,
  ): Promise<void>;
  /** With `expected`, removes the binding only if that is still its generation. */
  remove(scope: Scope, id: string, records: ChangeRecords, expected?: number): Promise<boolean>;
  /** The configuration that the last removed binding of the package left in exactly this scope; null if none. */
  getKeptConfig(scope: Scope, package_id: string): Promise<JsonObject | null>;
  /** Finds bindings visible to `scope`: its own and org-wide ones, or for the whole org those of all projects. */
  get(scope: Scope, id: string): MaybePromise<BoundPackage | null>;
  list(
    scope: Scope,
    filter: { kind?: ExportKind; package_id?: string },
    page: Page,
  ): Promise<PageOf<Binding>>;
  /**
   * All bindings of this export, and of whole packages, that are visible to `scope`, in any status and version. Cached
   * (benchmark http.invoke), but never stale.
   */
  findCandidates(scope: Scope, export_id: string, package_id?: string): MaybePromise<BoundPackage[]>;
  /** Active bindings visible to `scope`, for discovery. */
  discover(scope: Scope, kind: ExportKind): MaybePromise<BoundPackage[]>;
  /** Active bindings of whole packages in all orgs, for the start of a gateway. */
  listWholePackages(): Promise<BoundPackage[]>;
  /** Active hook bindings that subscribe to this event and can see its scope. */
  findHooks(scope: Scope, event: SemanticEventType): Promise<BoundPackage[]>;
  /** Increases with every change of a binding of the org. */
  getRevision(org_id: string): Promise<number>;
  /** Ids of the org's bindings that refer to this secret. */
  findBySecret(org_id: string, ref: string): Promise<string[]>;
}
