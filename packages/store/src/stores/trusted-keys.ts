import type { TrustedKey } from "@backplane/contract";
import type { TrustedKeyStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Row } from "../ops/op.ts";
import {
  listTrustedKeys,
  readHighestSigned,
  readTrustedKey,
  readTrustedKeyByKeyId,
} from "../ops/trusted-keys.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";

export function createTrustedKeyStore(backend: Backend): TrustedKeyStore {
  return {
    async create(key, records) {
      const { id, org_id, key_id } = key;
      await backend.write("createTrustedKey", {
        key_id,
        row: [id, org_id, key_id, JSON.stringify(key)],
        records: encodeRecords(records),
      });
    },
    async get(org_id, id) {
      const row = await backend.read(() => readTrustedKey(org_id, id));
      return row === undefined ? null : decode(row);
    },
    async findByKeyId(org_id, key_id) {
      const row = await backend.read(() => readTrustedKeyByKeyId(org_id, key_id));
      return row === undefined ? null : decode(row);
    },
    async list(org_id, page) {
      const rows = await backend.read(() => listTrustedKeys([org_id, pageCursor(page), page.limit + 1]));
      return toPage(rows, page, (row) => row.id as string, decode);
    },
    async replace(before, key, records) {
      const { id, org_id } = before;
      return await backend.write("replaceTrustedKey", {
        org_id,
        id,
        before: JSON.stringify(before),
        body: JSON.stringify(key),
        records: encodeRecords(records),
      });
    },
    findHighestSigned: (org_id, package_id) => backend.read(() => readHighestSigned(org_id, package_id)),
  };
}

function decode(row: Row): TrustedKey {
  return JSON.parse(row.body as string) as TrustedKey;
}
