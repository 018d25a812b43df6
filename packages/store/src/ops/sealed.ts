/**
 * Lists and replaces the sealed secrets, configuration values and sign-ins of all orgs, to seal them with a new key.
 */
import { type Op, type Row, type SqlValue, sql } from "./op.ts";

export type SealedKind = "secret" | "config" | "sign_in";

const TABLES = {
  secret: { table: "secrets", name: "name", text: "ciphertext", where: "" },
  config: { table: "config", name: "key", text: "value", where: "sealed = 1 and" },
  sign_in: { table: "sign_ins", name: "binding_id", text: "ciphertext", where: "" },
};

/** Returns the values that do not begin with `prefix`, sorted by org and name, after the given position. */
export function* listSealed(
  kind: SealedKind,
  prefix: string,
  after: { org_id: string; name: string },
  limit: number,
): Op<Row[]> {
  const { table, name, text, where } = TABLES[kind];
  return yield sql(
    `select org_id, ${name} as name, ${text} as ciphertext from ${table}
      where ${where} (org_id, ${name}) > ($1, $2)
        and substr(${text}, 1, cast($3 as integer)) <> $4
      order by org_id, ${name} limit $5`,
    [after.org_id, after.name, prefix.length, prefix, limit],
  );
}

/** Replaces each value only if it is still the one that was read. */
export function* replaceSealed(p: {
  rows: { kind: SealedKind; org_id: string; name: string; old_text: string; new_text: string }[];
}): Op<number> {
  let replaced = 0;
  for (const { kind, org_id, name: row_name, old_text, new_text } of p.rows) {
    const { table, name, text } = TABLES[kind];
    const values: SqlValue[] = [org_id, row_name, old_text, new_text];
    // The recorded size of a configuration value counts towards a limit, so it must be that of the new text.
    const bytes =
      kind === "config" ? `, bytes = bytes + $${values.push(new_text.length - old_text.length)}` : "";
    const updated = yield sql(
      `update ${table} set ${text} = $4${bytes} where org_id = $1 and ${name} = $2 and ${text} = $3 returning org_id`,
      values,
    );
    replaced += updated.length;
  }
  return replaced;
}
