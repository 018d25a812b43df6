import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, sql } from "./op.ts";

const LOGIN_COLUMNS =
  "binding_id, org_id, state_hash, start_hash, browser_hash, actor, expires_at, ciphertext";

interface BindingKey {
  org_id: string;
  binding_id: string;
}

function* isBound({ org_id, binding_id }: BindingKey): Op<boolean> {
  const bindings = yield sql("select binding_id from bindings where binding_id = $1 and org_id = $2", [
    binding_id,
    org_id,
  ]);
  return bindings.length > 0;
}

/** The revision is an optimistic lock: of two writers that renew the same token, only one succeeds. */
export function* putSignIn(
  p: BindingKey & { revision: number; renewing_until: number; ciphertext: string; records: ChangeRecordRows },
): Op<boolean> {
  if (!(yield* isBound(p))) return false;
  const written =
    p.revision === 1
      ? yield sql(
          `insert into sign_ins (binding_id, org_id, revision, renewing_until, ciphertext) values ($1, $2, 1, $3, $4)
            on conflict (binding_id) do nothing returning binding_id`,
          [p.binding_id, p.org_id, p.renewing_until, p.ciphertext],
        )
      : yield sql(
          `update sign_ins set revision = $3, renewing_until = $4, ciphertext = $5
            where binding_id = $1 and org_id = $2 and revision = $6 returning binding_id`,
          [p.binding_id, p.org_id, p.revision, p.renewing_until, p.ciphertext, p.revision - 1],
        );
  if (written.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* removeSignIn(p: BindingKey & { records: ChangeRecordRows }): Op<boolean> {
  const removed = yield sql(
    "delete from sign_ins where binding_id = $1 and org_id = $2 returning binding_id",
    [p.binding_id, p.org_id],
  );
  yield sql("delete from logins where binding_id = $1 and org_id = $2", [p.binding_id, p.org_id]);
  if (removed.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* beginLogin(
  p: BindingKey & {
    state_hash: string;
    start_hash: string;
    actor: string;
    expires_at: number;
    ciphertext: string;
    records: ChangeRecordRows;
  },
): Op<boolean> {
  if (!(yield* isBound(p))) return false;
  yield sql(
    `insert into logins (${LOGIN_COLUMNS}, status, message) values ($1, $2, $3, $4, null, $5, $6, $7, 'pending', null)
      on conflict (binding_id) do update set org_id = excluded.org_id, state_hash = excluded.state_hash,
        start_hash = excluded.start_hash, browser_hash = excluded.browser_hash,
        actor = excluded.actor, expires_at = excluded.expires_at, ciphertext = excluded.ciphertext,
        status = excluded.status, message = excluded.message`,
    [p.binding_id, p.org_id, p.state_hash, p.start_hash, p.actor, p.expires_at, p.ciphertext],
  );
  yield* writeRecords(p.records);
  return true;
}

/**
 * Binds the login to the first browser that opens it. The row records that browser, so that later ones can be refused.
 */
export function* openLogin(p: { start_hash: string; browser_hash: string; now: number }): Op<Row | null> {
  yield sql(
    `update logins set browser_hash = $2
      where start_hash = $1 and status = 'pending' and expires_at > $3 and browser_hash is null`,
    [p.start_hash, p.browser_hash, p.now],
  );
  const [login] = yield sql(
    `select ${LOGIN_COLUMNS} from logins where start_hash = $1 and ${checkedCondition("logins", "status = 'pending' and expires_at > $2")}`,
    [p.start_hash, p.now],
  );
  return login ?? null;
}

export function* findPendingLogin(state_hash: string, now: number): Op<Row | undefined> {
  return (yield sql(
    `select ${LOGIN_COLUMNS} from logins where state_hash = $1 and ${checkedCondition("logins", "status = 'pending' and expires_at > $2")}`,
    [state_hash, now],
  ))[0];
}

/** A login is used once, so its ciphertext is removed. */
export function* takeLogin(p: { state_hash: string; now: number }): Op<Row | null> {
  const login = yield* findPendingLogin(p.state_hash, p.now);
  if (login === undefined) return null;
  const updated = yield sql(
    `update logins set status = 'taken', ciphertext = '' where state_hash = $1 and status = 'pending'
      returning binding_id`,
    [p.state_hash],
  );
  return updated.length === 0 ? null : login;
}

export function* endLogin(p: { state_hash: string; status: string; message: string | null }): Op<void> {
  yield sql("update logins set status = $2, message = $3 where state_hash = $1 and status = 'taken'", [
    p.state_hash,
    p.status,
    p.message,
  ]);
}

export function* readSignIn(org_id: string, binding_id: string): Op<Row | undefined> {
  return (yield sql(
    `select revision, renewing_until, ciphertext from sign_ins
      where binding_id = $1 and ${checkedCondition("sign_ins", "org_id = $2")}`,
    [binding_id, org_id],
  ))[0];
}

export function* readLogin(org_id: string, binding_id: string): Op<Row | undefined> {
  return (yield sql(
    `select status, message, actor, expires_at from logins
      where binding_id = $1 and ${checkedCondition("logins", "org_id = $2")}`,
    [binding_id, org_id],
  ))[0];
}
