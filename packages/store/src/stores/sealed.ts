import type { SealedStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listSealed } from "../ops/sealed.ts";

export function createSealedStore(backend: Backend): SealedStore {
  return {
    async list(kind, prefix, after, limit) {
      const rows = await backend.read(() => listSealed(kind, prefix, after, limit));
      return rows.map((row) => ({
        kind,
        org_id: row.org_id as string,
        name: row.name as string,
        ciphertext: row.ciphertext as string,
      }));
    },
    replace: (changes) =>
      backend.write("replaceSealed", {
        rows: changes.map(({ row: { kind, org_id, name, ciphertext }, ciphertext: new_text }) => ({
          kind,
          org_id,
          name,
          old_text: ciphertext,
          new_text,
        })),
      }),
  };
}
