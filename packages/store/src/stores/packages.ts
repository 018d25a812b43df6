import type { Package } from "@backplane/contract";
import type { ChangeRecords, PackageStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { digestInUse, findPackage, type InsertPackage, listPackages, readPackage } from "../ops/packages.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";

export function createPackageStore(backend: Backend): PackageStore {
  return {
    async insert(row, records) {
      const existing = await backend.write("insertPackage", encodePackage(row, records));
      if (existing !== null) return { row: decodePackage(existing), created: false };
      if (records.events !== undefined) backend.notifyAppended();
      return { row, created: true };
    },
    get: (org_id, id) =>
      backend.readCached(`package ${org_id} ${id}`, function* () {
        const row = yield* readPackage(org_id, id);
        return row === undefined ? null : decodePackage(row.body);
      }),
    find: (org_id, package_id, version) =>
      backend.readCached(`package ${org_id} ${package_id} ${version}`, function* () {
        const [row] = yield findPackage(org_id, package_id, version);
        return row === undefined ? null : decodePackage(row.body);
      }),
    async list(org_id, page) {
      const rows = await backend.read(() => listPackages([org_id, pageCursor(page), page.limit + 1]));
      return toPage(
        rows,
        page,
        (row) => row.id as string,
        (row) => decodePackage(row.body),
      );
    },
    async remove(org_id, id, records) {
      const removed = await backend.write("removePackage", { org_id, id, records: encodeRecords(records) });
      if (removed && records.events !== undefined) backend.notifyAppended();
      return removed;
    },
    isDigestInUse: (digest) => backend.read(() => digestInUse(digest)),
  };
}

export function encodePackage(row: Package, records: ChangeRecords): InsertPackage {
  return {
    id: row.id,
    org_id: row.org_id,
    package_id: row.package_id,
    version: row.version,
    digest: row.digest,
    body: JSON.stringify(row),
    records: encodeRecords(records),
    highest: null,
  };
}

export function decodePackage(body: unknown): Package {
  return JSON.parse(body as string) as Package;
}
