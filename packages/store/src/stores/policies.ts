import type { Policy } from "@backplane/contract";
import type { PolicyRow, PolicyStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Row } from "../ops/op.ts";
import { readPolicies } from "../ops/policies.ts";
import { encodeRecords } from "./change-records.ts";
import { projectColumn, projectOf } from "./scope.ts";

export function createPolicyStore(backend: Backend): PolicyStore {
  return {
    get: ({ org_id, project_id }) =>
      backend.readCached(`policy ${org_id} ${project_id ?? ""}`, function* () {
        const rows = (yield* readPolicies(org_id, projectColumn(project_id))).map(decode);
        const findPolicy = (project: string | null) =>
          rows.find(({ scope }) => scope.project_id === project) ?? null;
        return { org: findPolicy(null), project: project_id === null ? null : findPolicy(project_id) };
      }),
    async put({ scope, policy, ...row }, records) {
      const written = await backend.write("putPolicy", {
        ...row,
        org_id: scope.org_id,
        project_id: projectColumn(scope.project_id),
        document: JSON.stringify(policy),
        records: encodeRecords(records),
      });
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
  };
}

function decode(row: Row): PolicyRow {
  return {
    scope: { org_id: row.org_id as string, project_id: projectOf(row.project_id) },
    policy: JSON.parse(row.document as string) as Policy,
    generation: row.generation as number,
    updated_at: row.updated_at as string,
    updated_by: row.updated_by as string,
  };
}
