import type { Secret } from "@backplane/contract";
import type { SecretStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listBindingsUsing } from "../ops/bindings.ts";
import type { Op, Row } from "../ops/op.ts";
import { listSecrets, readSecret } from "../ops/secrets.ts";
import { encodeRecords } from "./change-records.ts";
import { toPage } from "./page.ts";
import { projectColumn, projectOf, scopeColumns } from "./scope.ts";

export function createSecretStore(backend: Backend): SecretStore {
  return {
    async put({ project_id = null, ...secret }, now, records) {
      const owner = { project_id: projectColumn(project_id) };
      const row = await backend.write("putSecret", {
        ...secret,
        ...owner,
        now,
        records: encodeRecords(records),
      });
      if (records.events !== undefined) backend.notifyAppended();
      return backend.read(() => decodeSecret(row));
    },
    get: (org_id, name) =>
      backend.read(function* () {
        const row = yield* readSecret(org_id, name);
        return row === undefined ? null : yield* decodeSecret(row);
      }),
    async getSealed(org_id, name) {
      const row = await backend.read(() => readSecret(org_id, name));
      if (row === undefined) return null;
      return { org_id, name, ciphertext: row.ciphertext as string, last4: row.last4 as string };
    },
    async list({ org_id, project_id }, page) {
      const secrets = await backend.read(function* () {
        const secrets: Secret[] = [];
        for (const row of yield* listSecrets(
          org_id,
          projectColumn(project_id),
          page.after ?? "",
          page.limit + 1,
        )) {
          secrets.push(yield* decodeSecret(row));
        }
        return secrets;
      });
      return toPage(
        secrets,
        page,
        (secret) => secret.name,
        (secret) => secret,
      );
    },
    async remove(scope, name, records) {
      const { org_id } = scope;
      const removed = await backend.write("removeSecret", {
        ...scopeColumns(scope),
        name,
        ref: joinRef(org_id, name),
        records: encodeRecords(records),
      });
      if (removed && records.events !== undefined) backend.notifyAppended();
      return removed;
    },
  };
}

function* decodeSecret(row: Row): Op<Secret> {
  const org_id = row.org_id as string;
  const name = row.name as string;
  const ref = joinRef(org_id, name);
  return {
    name,
    org_id,
    project_id: projectOf(row.project_id as string),
    ref,
    last4: row.last4 as string,
    version: row.version as number,
    used_by: yield* listBindingsUsing(org_id, ref),
    created_at: row.created_at as string,
    updated_at: row.updated_at as string,
  };
}

function joinRef(org_id: string, name: string): string {
  return `secret://${org_id}/${name}`;
}
