import {
  type ApiKey,
  type AuditEntry,
  IDEMPOTENCY_TTL_MS,
  type JsonObject,
  type Secret,
} from "@backplane/contract";
import type { AuditStore, IdempotencyStore, KeyStore, Scope, SecretStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Listeners } from "../backend/listeners.ts";
import {
  listAudit,
  listKeys,
  listSecrets,
  readChain,
  readChainHash,
  readChainHead,
  readKey,
  readKeyById,
  readSecret,
} from "../ops/access.ts";
import { bindingsUsing } from "../ops/bindings.ts";
import { chainHash } from "../ops/facts.ts";
import { findIdempotent } from "../ops/idempotency.ts";
import type { Op, Row } from "../ops/op.ts";
import { canonicalAudit, encodeAudit, encodeFacts } from "./facts.ts";
import { beforeOf, pageOf, projectColumn, projectOf } from "./scope.ts";

export function createSecretStore(backend: Backend): SecretStore {
  return {
    async put({ project_id = null, ...secret }, now, facts) {
      const owner = { project_id: projectColumn(project_id) };
      const row = await backend.write("putSecret", { ...secret, ...owner, now, facts: encodeFacts(facts) });
      if (facts.events !== undefined) backend.appended();
      return backend.read(() => decodeSecret(row));
    },
    get: (org_id, name) =>
      backend.read(function* () {
        const row = yield* readSecret(org_id, name);
        return row === undefined ? null : yield* decodeSecret(row);
      }),
    async sealed(org_id, name) {
      const row = await backend.read(() => readSecret(org_id, name));
      if (row === undefined) return null;
      return { org_id, name, ciphertext: row.ciphertext as string, last4: row.last4 as string };
    },
    async list({ org_id, project_id }, page) {
      const secrets = await backend.read(function* () {
        const found: Secret[] = [];
        for (const row of yield* listSecrets(
          org_id,
          projectColumn(project_id),
          page.after ?? "",
          page.limit + 1,
        )) {
          found.push(yield* decodeSecret(row));
        }
        return found;
      });
      return pageOf(
        secrets,
        page,
        (secret) => secret.name,
        (secret) => secret,
      );
    },
    async remove(scope, name, facts) {
      const { org_id } = scope;
      const gone = await backend.write("removeSecret", {
        ...columnsOf(scope),
        name,
        ref: refOf(org_id, name),
        facts: encodeFacts(facts),
      });
      if (gone && facts.events !== undefined) backend.appended();
      return gone;
    },
  };
}

function* decodeSecret(row: Row): Op<Secret> {
  const org_id = row.org_id as string;
  const name = row.name as string;
  const ref = refOf(org_id, name);
  return {
    name,
    org_id,
    project_id: projectOf(row.project_id as string),
    ref,
    last4: row.last4 as string,
    version: row.version as number,
    used_by: yield* bindingsUsing(org_id, ref),
    created_at: row.created_at as string,
    updated_at: row.updated_at as string,
  };
}

function refOf(org_id: string, name: string): string {
  return `secret://${org_id}/${name}`;
}

export function createKeyStore(backend: Backend): KeyStore {
  return {
    async create(key, token_hash, facts) {
      await backend.write("createKey", {
        row: [
          key.id,
          key.org_id,
          projectColumn(key.project_id),
          token_hash,
          key.revoked_at,
          JSON.stringify(key),
        ],
        facts: encodeFacts(facts),
      });
      if (facts.events !== undefined) backend.appended();
    },
    byHash: (token_hash) =>
      backend.readHot(`key ${token_hash}`, function* () {
        const row = yield* readKey(token_hash);
        return row === undefined ? null : decodeKey(row);
      }),
    get: (org_id, id) =>
      backend.readHot(`key by id ${org_id} ${id}`, function* () {
        const row = yield* readKeyById(org_id, id);
        return row === undefined ? null : decodeKey(row);
      }),
    async list(scope, page) {
      const rows = await backend.read(() =>
        listKeys([scope.org_id, projectColumn(scope.project_id), beforeOf(page), page.limit + 1]),
      );
      return pageOf(rows, page, (row) => row.id as string, decodeKey);
    },
    async revoke(scope, id, at, facts) {
      const hit = await backend.write("revokeKey", {
        ...columnsOf(scope),
        id,
        at,
        facts: encodeFacts(facts),
      });
      if (hit && facts.events !== undefined) backend.appended();
      return hit;
    },
  };
}

function decodeKey(row: Row): ApiKey {
  return { ...(JSON.parse(row.body as string) as ApiKey), revoked_at: row.revoked_at as string | null };
}

const SWEEP_STEP = 500;

export function createIdempotencyStore(backend: Backend): IdempotencyStore {
  return {
    begin: (scope, key, digest, now, stale_ms) =>
      backend.write("beginIdempotent", {
        ...columnsOf(scope),
        key,
        digest,
        now: backend.at(now),
        stale_ms,
        ttl_ms: Math.max(stale_ms, IDEMPOTENCY_TTL_MS),
      }),
    find: (scope, key, digest, now, stale_ms) =>
      backend.read((dialect) =>
        findIdempotent({ ...columnsOf(scope), key, digest, now: backend.at(now), stale_ms }, dialect),
      ),
    finish: (scope, key, status, body, now) =>
      backend.write("finishIdempotent", {
        ...columnsOf(scope),
        key,
        status,
        body,
        now: backend.at(now),
        ttl_ms: IDEMPOTENCY_TTL_MS,
      }),
    abandon: (scope, key) => backend.write("abandonIdempotent", { ...columnsOf(scope), key }),
    async sweep(now) {
      for (let total = 0; ; ) {
        const gone = await backend.write("sweepIdempotent", { now: backend.at(now), limit: SWEEP_STEP });
        total += gone;
        if (gone < SWEEP_STEP) return total;
      }
    },
  };
}

const CHAIN_STEP = 500;

export function createAuditStore(backend: Backend, appended: Listeners): AuditStore {
  return {
    append: (entry) => backend.write("appendAudit", encodeAudit(entry)),
    async list(scope, filter, page) {
      const before = page.after === undefined ? Number.MAX_SAFE_INTEGER : Number(page.after) || 0;
      const rows = await backend.read(() =>
        listAudit(scope.org_id, projectColumn(scope.project_id), filter.action ?? "", before, page.limit + 1),
      );
      return pageOf(rows, page, (row) => String(row.seq), decodeAudit);
    },
    /** The head names the last entry, so a cut-off end is found like a changed byte. */
    async verify() {
      const head = await backend.readUnchecked(readChainHead);
      let seq = 0;
      let hash = "";
      while (seq < (head.seq as number)) {
        const rows = await backend.readUnchecked(() => readChain(seq, CHAIN_STEP));
        if (rows.length === 0) return seq + 1;
        for (const row of rows) {
          hash = chainHash(hash, seq + 1, canonicalAudit(AUDITED.map((column) => row[column])));
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
        const next = chainHash(hash, seq + 1, canonicalAudit(AUDITED.map((column) => row[column])));
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

const AUDITED = ["id", "at", "org_id", "project_id", "actor", "action", "subject", "details"];

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

function columnsOf(scope: Scope) {
  return { org_id: scope.org_id, project_id: projectColumn(scope.project_id) };
}
