import type { Login, LoginState, SignInStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Row } from "../ops/op.ts";
import { findPendingLogin, readLogin, readSignIn } from "../ops/sign-ins.ts";
import { encodeRecords } from "./change-records.ts";

export function createSignInStore(backend: Backend): SignInStore {
  return {
    get: (org_id, binding_id) =>
      backend.readCached(`sign_in ${org_id} ${binding_id}`, function* () {
        const row = yield* readSignIn(org_id, binding_id);
        if (row === undefined) return null;
        return {
          revision: Number(row.revision),
          renewing_until: Number(row.renewing_until),
          ciphertext: row.ciphertext as string,
        };
      }),
    put: (org_id, binding_id, row, records) =>
      backend.write("putSignIn", { org_id, binding_id, ...row, records: encodeRecords(records) }),
    remove: (org_id, binding_id, records) =>
      backend.write("removeSignIn", { org_id, binding_id, records: encodeRecords(records) }),
    beginLogin: (login, records) =>
      backend.write("beginLogin", { ...login, records: encodeRecords(records) }),
    async openLogin(start_hash, browser_hash, now) {
      const row = await backend.write("openLogin", { start_hash, browser_hash, now });
      return row === null ? null : decode(row);
    },
    async getPendingLogin(state_hash, now) {
      const row = await backend.read(() => findPendingLogin(state_hash, now));
      return row === undefined ? null : decode(row);
    },
    async takeLogin(state_hash, now) {
      const row = await backend.write("takeLogin", { state_hash, now });
      return row === null ? null : decode(row);
    },
    endLogin: (state_hash, status, message) => backend.write("endLogin", { state_hash, status, message }),
    async getLoginState(org_id, binding_id) {
      const row = await backend.read(() => readLogin(org_id, binding_id));
      if (row === undefined) return null;
      return {
        status: row.status as LoginState["status"],
        message: row.message as string | null,
        actor: row.actor as string,
        expires_at: Number(row.expires_at),
      };
    },
  };
}

function decode(row: Row): Login {
  return {
    org_id: row.org_id as string,
    binding_id: row.binding_id as string,
    state_hash: row.state_hash as string,
    start_hash: row.start_hash as string,
    browser_hash: row.browser_hash as string | null,
    actor: row.actor as string,
    expires_at: Number(row.expires_at),
    ciphertext: row.ciphertext as string,
  };
}
