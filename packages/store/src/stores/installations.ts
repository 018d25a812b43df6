import type { InstallationStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { encodeBinding } from "./bindings.ts";
import { encodeRecords } from "./change-records.ts";
import { decodePackage, encodePackage } from "./packages.ts";
import { projectColumn } from "./scope.ts";

export function createInstallationStore(backend: Backend): InstallationStore {
  return {
    async commit({ packages, moved, created, removed = [], expected_revision = null }) {
      const [changed] = [...moved, ...created, ...removed];
      const existing = await backend.write("commitInstallation", {
        org_id: changed?.row.scope.org_id ?? "",
        expected_revision,
        packages: packages.map(({ row, records, highest }) => ({
          ...encodePackage(row, records),
          highest: highest ?? null,
        })),
        moved: moved.map(({ row, expected, records }) => ({ ...encodeBinding(row, records), expected })),
        created: created.map(({ row, records }) => encodeBinding(row, records)),
        removed: removed.map(({ row, records, keeps_config = false }) => ({
          org_id: row.scope.org_id,
          project_id: projectColumn(row.scope.project_id),
          id: row.binding_id,
          expected: row.generation,
          kept: keeps_config
            ? {
                project_id: projectColumn(row.scope.project_id),
                package_id: row.package_id,
                config: JSON.stringify(row.config),
              }
            : null,
          records: encodeRecords(records),
        })),
      });
      backend.notifyAppended();
      return packages.map(({ row }, index) => {
        const body = existing[index] ?? null;
        return body === null ? { row, created: true } : { row: decodePackage(body), created: false };
      });
    },
  };
}
