import type { ApiKey } from "@backplane/contract";
import type { KeyStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listKeys, readKey, readKeyById } from "../ops/keys.ts";
import type { Row } from "../ops/op.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, scopeColumns } from "./scope.ts";

export function createKeyStore(backend: Backend): KeyStore {
  return {
    async create(key, token_hash, records) {
      await backend.write("createKey", {
        row: [
          key.id,
          key.org_id,
          projectColumn(key.project_id),
          token_hash,
          key.revoked_at,
          JSON.stringify(key),
        ],
        records: encodeRecords(records),
      });
      if (records.events !== undefined) backend.notifyAppended();
    },
    findByHash: (token_hash) =>
      backend.readCached(`key ${token_hash}`, function* () {
        const row = yield* readKey(token_hash);
        return row === undefined ? null : decodeKey(row);
      }),
    get: (org_id, id) =>
      backend.readCached(`key by id ${org_id} ${id}`, function* () {
        const row = yield* readKeyById(org_id, id);
        return row === undefined ? null : decodeKey(row);
      }),
    async list(scope, page) {
      const rows = await backend.read(() =>
        listKeys([scope.org_id, projectColumn(scope.project_id), pageCursor(page), page.limit + 1]),
      );
      return toPage(rows, page, (row) => row.id as string, decodeKey);
    },
    async revoke(scope, id, at, records) {
      const written = await backend.write("revokeKey", {
        ...scopeColumns(scope),
        id,
        at,
        records: encodeRecords(records),
      });
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
  };
}

function decodeKey(row: Row): ApiKey {
  return { ...(JSON.parse(row.body as string) as ApiKey), revoked_at: row.revoked_at as string | null };
}
