/** Damage of rows, files, commits and the audit log is detected. */
import type { Mutant } from "./mutant.ts";

const SQLITE = "packages/store/src/sqlite";
const DAMAGE = ["packages/store/test/damage.test.ts"];
const CHECKSUMS = ["packages/store/test/checksummed-writes.test.ts"];
const TAMPERING = ["test/e2e/audit-tampering.test.ts"];

export const DAMAGE_DEFENCES: Mutant[] = [
  {
    defence: "a row is checked when it is read",
    file: `${SQLITE}/connection/connection.ts`,
    from: "checks = rowChecks(database);",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "a damaged row is not made valid by an update",
    file: `${SQLITE}/connection/checksummed-writes.ts`,
    from: "checkValues(table.name, table.key, sum!, values);",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "no statement writes a row without a checksum",
    file: `${SQLITE}/connection/checksummed-writes.ts`,
    from: "if (table === undefined) return refuseForm(text);",
    to: "if (table === undefined) return undefined;",
    tests: CHECKSUMS,
  },
  {
    defence: "a value that SQLite converts gets no wrong checksum",
    file: `${SQLITE}/connection/checksummed-writes.ts`,
    from: 'if (table.types[n] === "text" ? typeof value === "string" : Number.isFinite(value)) continue;',
    to: "continue;",
    tests: CHECKSUMS,
  },
  {
    defence: "numbers of a rolled back transaction are read again",
    file: `${SQLITE}/connection/connection.ts`,
    from: "writes?.forgetPositions();",
    to: "",
    tests: CHECKSUMS,
  },
  {
    defence: "known damage stays known when the schema changes",
    file: `${SQLITE}/connection/row-checksums.ts`,
    from: "const same = damaged.get(table.name);",
    to: 'const same = damaged.get("");',
    tests: DAMAGE,
  },
  {
    defence: "the file is checked before it is used",
    file: `${SQLITE}/open.ts`,
    from: "checkDatabaseContent(owner, file, check_first, log);",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "the definitions of tables are checked",
    file: `${SQLITE}/damage/check-file.ts`,
    from: "return row.schema_sum === schemaChecksum(database)",
    to: "return row.schema_sum !== -1",
    tests: DAMAGE,
  },
  {
    defence: "numbering that went back is detected",
    file: `${SQLITE}/damage/check-file.ts`,
    from: "return unknown || outbox < (cursor.seq ?? 0) ?",
    to: "return unknown ?",
    tests: DAMAGE,
  },
  {
    defence: "the header is checked before SQLite sees it",
    file: `${SQLITE}/open.ts`,
    from: "    checkHeader(file);\n",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "lost commits are reported",
    file: `${SQLITE}/damage/check-at-open.ts`,
    from: "if (counted.count <= state.count) return;",
    to: "if (counted.count >= 0) return;",
    tests: DAMAGE,
  },
  {
    defence: "commits are counted beside the store",
    file: `${SQLITE}/writer/run-batch.ts`,
    from: "if (counts) counter.committed();",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "the damaged log is kept",
    file: `${SQLITE}/damage/check-at-open.ts`,
    from: "copyFileSync(wal, kept);",
    to: "",
    tests: DAMAGE,
  },
  {
    defence: "a large store is checked in a thread",
    file: `${SQLITE}/open.ts`,
    from: "          damaged = error;",
    to: "          void error;",
    tests: DAMAGE,
  },
  {
    defence: "rows that are not checked before the store is used are checked in a thread",
    file: `${SQLITE}/damage/check-at-open.ts`,
    from: "later: CHECK_PARTS.filter((part) => size > limits[part]),",
    to: 'later: CHECK_PARTS.filter((part) => part !== "rows" && size > limits[part]),',
    tests: DAMAGE,
  },
  {
    defence: "a damaged backup is not restored",
    file: `${SQLITE}/damage/maintenance.ts`,
    from: "if (found.structure.length + found.rows.length > 0) {",
    to: "if (found.structure.length < 0) {",
    tests: ["packages/cli/test/commands/store.test.ts"],
  },
  {
    defence: "the audit log's hashes are computed again",
    file: "packages/store/src/stores/audit.ts",
    from: "if (row.hash !== next) return",
    to: "if (row.hash === next + next) return",
    tests: TAMPERING,
  },
  {
    defence: "the audit log is compared with its anchor and its export",
    file: "packages/door/src/audit/watch-audit.ts",
    from: "if (hash === mark.hash) return null;",
    to: "if (hash !== mark.seq.toString()) return null;",
    tests: TAMPERING,
  },
  {
    defence: "a damaged anchor is not trusted",
    file: "packages/gateway/src/home/audit-files.ts",
    from: 'return sum === sumOf(mark) ? mark : "damaged";',
    to: "return sum === 0 ? mark : mark;",
    tests: TAMPERING,
  },
];
