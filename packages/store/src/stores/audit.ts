import { type AuditEntry, canonicalJson, type JsonObject } from "@backplane/contract";
import type { AuditStore, NewAudit } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Listeners } from "../backend/listeners.ts";
import {
  type AuditRow,
  chainHash,
  listAudit,
  readChain,
  readChainHash,
  readChainHead,
} from "../ops/audit.ts";
import type { Row } from "../ops/op.ts";
import { toPage } from "./page.ts";
import { projectColumn, projectOf } from "./scope.ts";

const CHAIN_STEP = 500;

export function createAuditStore(backend: Backend, appended: Listeners): AuditStore {
  return {
    append: (entry) => backend.write("appendAudit", encodeAudit(entry)),
    async list(scope, filter, page) {
      const before = page.after === undefined ? Number.MAX_SAFE_INTEGER : Number(page.after) || 0;
      const rows = await backend.read(() =>
        listAudit(scope.org_id, projectColumn(scope.project_id), filter.action ?? "", before, page.limit + 1),
      );
      return toPage(rows, page, (row) => String(row.seq), decodeAudit);
    },
    /** The head records the last entry, so a truncated end is detected like a changed byte. */
    async verify() {
      const head = await backend.readUnchecked(readChainHead);
      let seq = 0;
      let hash = "";
      while (seq < (head.seq as number)) {
        const rows = await backend.readUnchecked(() => readChain(seq, CHAIN_STEP));
        if (rows.length === 0) return seq + 1;
        for (const row of rows) {
          hash = chainHash(hash, seq + 1, canonicalText(row));
          if (row.seq !== seq + 1 || row.hash !== hash) return seq + 1;
          seq++;
          if (seq === head.seq) return hash === head.hash ? null : seq;
        }
      }
      return null;
    },
    async head() {
      const head = await backend.readUnchecked(readChainHead);
      return { seq: head.seq as number, hash: head.hash as string };
    },
    async hashAt(seq) {
      return ((await backend.readUnchecked(() => readChainHash(seq)))?.hash as string | undefined) ?? null;
    },
    async verifyStep(from, limit) {
      let { seq, hash } = from;
      const rows = await backend.readUnchecked(() => readChain(seq, limit));
      for (const row of rows) {
        const next = chainHash(hash, seq + 1, canonicalText(row));
        if (row.seq !== seq + 1) return { broken: { seq: seq + 1, gone: true }, reached: { seq, hash } };
        if (row.hash !== next) return { broken: { seq: seq + 1, gone: false }, reached: { seq, hash } };
        seq++;
        hash = next;
      }
      return { broken: rows.length === 0 ? { seq: seq + 1, gone: true } : null, reached: { seq, hash } };
    },
    async after(seq, limit) {
      return (await backend.read(() => readChain(seq, limit))).map(decodeAudit);
    },
    onAppended: (listener) => appended.add(listener),
  };
}

const HASHED_COLUMNS = ["id", "at", "org_id", "project_id", "actor", "action", "subject", "details"];

/** The text that the hash of an entry covers: every column of the entry, with the details as stored. */
function canonicalText(row: Row): string {
  return canonicalJson(HASHED_COLUMNS.map((column) => row[column]));
}

function decodeAudit(row: Row): AuditEntry {
  return {
    seq: row.seq as number,
    id: row.id as string,
    at: new Date(row.at as number).toISOString(),
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    actor: row.actor as string,
    action: row.action as string,
    subject: row.subject as string,
    details: JSON.parse(row.details as string) as JsonObject,
    hash: row.hash as string,
  };
}

export function encodeAudit(entry: NewAudit): AuditRow {
  const details = canonicalJson(entry.details);
  const { org_id } = entry.scope;
  const project_id = projectColumn(entry.scope.project_id);
  // In the order of HASHED_COLUMNS.
  const values = [entry.id, entry.at, org_id, project_id, entry.actor, entry.action, entry.subject, details];
  return { values, canonical: canonicalJson(values) };
}
