import type { Binding, JsonObject } from "@backplane/contract";
import type { BindingStore, BoundPackage, ChangeRecords, Scope } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import {
  listActiveBindings,
  listActiveHooks,
  listBindings,
  listBindingsUsing,
  listCandidateBindings,
  listWholePackageBindings,
  readBinding,
  readKeptSettings,
  readRevision,
  type WriteBinding,
} from "../ops/bindings.ts";
import type { Op, Row } from "../ops/op.ts";
import { encodeRecords } from "./change-records.ts";
import { decodePackage } from "./packages.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn } from "./scope.ts";

export function createBindingStore(backend: Backend): BindingStore {
  const readList = (name: string, scope: Scope, key: string, rows: () => Op<Row[]>) =>
    backend.readCached(`${name} ${scope.org_id} ${scope.project_id ?? ""} ${key}`, function* () {
      return decodeAll(yield* rows());
    });
  return {
    async create(row, records, expected_revision = null) {
      await backend.write("createBinding", { ...encodeBinding(row, records), expected_revision });
      if (records.events !== undefined) backend.notifyAppended();
    },
    async update(row, expected, records, expected_revision = null) {
      const encoded = { ...encodeBinding(row, records), expected, expected_revision };
      const written = await backend.write("updateBinding", encoded);
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
    async updateAll(changes, expected_revision = null) {
      if (changes.length === 0) return;
      const encoded = changes.map(({ row, expected, records }) => ({
        ...encodeBinding(row, records),
        expected,
      }));
      const { org_id } = encoded[0]!;
      await backend.write("updateBindings", { org_id, expected_revision, changes: encoded });
      backend.notifyAppended();
    },
    async remove(scope, id, records, expected) {
      const removed = await backend.write("removeBinding", {
        org_id: scope.org_id,
        project_id: projectColumn(scope.project_id),
        id,
        expected: expected ?? null,
        kept: null,
        records: encodeRecords(records),
      });
      if (removed && records.events !== undefined) backend.notifyAppended();
      return removed;
    },
    async getKeptConfig({ org_id, project_id }, package_id) {
      const row = await backend.read(() => readKeptSettings(org_id, projectColumn(project_id), package_id));
      return row === undefined ? null : (JSON.parse(row.config as string) as JsonObject);
    },
    get: (scope, id) =>
      backend.readCached(`binding ${scope.org_id} ${scope.project_id ?? ""} ${id}`, function* () {
        const row = yield* readBinding([scope.org_id, projectColumn(scope.project_id), id]);
        return row === undefined ? null : (decodeAll([row])[0] ?? null);
      }),
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listBindings([
          scope.org_id,
          projectColumn(scope.project_id),
          pageCursor(page),
          filter.kind ?? "",
          filter.package_id ?? "",
          page.limit + 1,
        ]),
      );
      return toPage(
        rows,
        page,
        (row) => row.id as string,
        (row) => JSON.parse(row.body as string) as Binding,
      );
    },
    findCandidates: (scope, export_id, package_id = "") =>
      readList("candidates", scope, `${export_id} ${package_id}`, () =>
        listCandidateBindings([scope.org_id, projectColumn(scope.project_id), export_id, package_id]),
      ),
    discover: (scope, kind) =>
      readList("discover", scope, kind, () =>
        listActiveBindings([scope.org_id, projectColumn(scope.project_id), kind]),
      ),
    listWholePackages: async () => decodeAll(await backend.read(listWholePackageBindings)),
    async findHooks(scope, event) {
      const hooks = await readList("hooks", scope, "", () =>
        listActiveHooks([scope.org_id, projectColumn(scope.project_id)]),
      );
      return hooks.filter(({ binding, package: package_ }) =>
        package_.manifest.exports.some(
          (item) =>
            item.kind === "hook" && item.id === binding.export_id && item.hook.subscribes_to.includes(event),
        ),
      );
    },
    getRevision: (org_id) => backend.read(() => readRevision(org_id)),
    findBySecret: (org_id, ref) => backend.read(() => listBindingsUsing(org_id, ref)),
  };
}

export function encodeBinding(row: Binding, records: ChangeRecords): WriteBinding {
  return {
    binding_id: row.binding_id,
    org_id: row.scope.org_id,
    project_id: projectColumn(row.scope.project_id),
    package_id: row.package_id,
    package_version: row.package_version,
    export_id: row.export_id,
    kind: row.kind,
    status: row.status,
    generation: row.generation,
    refs: [...new Set(Object.values(row.secrets))],
    body: JSON.stringify(row),
    records: encodeRecords(records),
  };
}

/** Bindings of one package share one parsed package. */
function decodeAll(rows: Row[]): BoundPackage[] {
  const packages = new Map<unknown, BoundPackage["package"]>();
  return rows.map((row) => {
    const package_ = packages.get(row.package_row) ?? decodePackage(row.package);
    packages.set(row.package_row, package_);
    return { binding: JSON.parse(row.body as string) as Binding, package: package_ };
  });
}
