/**
 * The entries of one append become one row (ops/spans.ts). Each existing entry gets its own row: its hash, and so the
 * bytes that the hash covers, must not change.
 */
import type { Migration } from "./migration.ts";

export const spans: Migration = {
  version: 8,
  name: "spans",
  statements: [
    `create table spans (
      chain_id {id} not null, first_id {int} not null, last_id {int} not null, anchor {int}, body text not null,
      primary key (chain_id, last_id))`,
    {
      sqlite: `insert into spans (chain_id, first_id, last_id, anchor, body)
        select chain_id, id, id, case kind when 'anchor' then id end,
          '[[' || json_quote(kind) || ',' || json_quote(date) || ',' || payload || ',' || meta || ',"' || hash || '"]]'
        from entries order by rowid`,
      postgres: `insert into spans (chain_id, first_id, last_id, anchor, body)
        select chain_id, id, id, case kind when 'anchor' then id end,
          '[[' || to_json(kind::text) || ',' || to_json(date) || ',' || payload || ',' || meta || ',"' || hash || '"]]'
        from entries`,
    },
    `drop table entries`,
    `create index spans_anchor on spans (chain_id, anchor) where anchor is not null`,
  ],
};
