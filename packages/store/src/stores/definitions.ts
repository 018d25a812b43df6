import type { Definitions } from "@backplane/contract";
import type { DefinitionStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { readDefinitions } from "../ops/definitions.ts";
import { encodeRecords } from "./change-records.ts";

export function createDefinitionStore(backend: Backend): DefinitionStore {
  return {
    get: (org_id, binding_id) =>
      backend.readCached(`definitions ${org_id} ${binding_id}`, function* () {
        const row = yield* readDefinitions(org_id, binding_id);
        return row === undefined ? null : (JSON.parse(row.body as string) as Definitions);
      }),
    async put(org_id, row, records) {
      const written = await backend.write("putDefinitions", {
        org_id,
        binding_id: row.binding_id,
        revision: row.revision,
        body: JSON.stringify(row),
        records: encodeRecords(records),
      });
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
  };
}
