/** Secrets (ciphertext only), API keys, delegated tokens, idempotency keys, audit. */
import type { ApiKey, AuditEntry, JsonObject, MaybePromise, Secret } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { AuditMark } from "./audit-marks.ts";
import type { Facts, NewAudit } from "./facts.ts";
import type { NewDelegation } from "./invocation-store.ts";

export interface SealedSecret {
  org_id: string;
  /** Who stores it, and so whose a new one is: a project, or (null or left out) the whole org. */
  project_id?: string | null;
  name: string;
  /** Opaque to the store; carries the id of the key that sealed it. */
  ciphertext: string;
  last4: string;
}

export interface SecretStore {
  /** Creates version 1 or replaces the value with the next one; throws `policy.denied` for a secret of somebody else. */
  put(secret: SealedSecret, now: string, facts: Facts): Promise<Secret>;
  get(org_id: string, name: string): Promise<Secret | null>;
  /** For the vault alone. */
  sealed(org_id: string, name: string): Promise<SealedSecret | null>;
  /** Of a project: its own and the org's. */
  list(scope: Scope, page: Page): Promise<PageOf<Secret>>;
  /** Throws `policy.denied` for a secret of somebody else, `secret.in_use` with details.used_by while a binding refers to it. */
  remove(scope: Scope, name: string, facts: Facts): Promise<boolean>;
}

/** A sealed text where it lies. */
export interface SealedRow {
  kind: "secret" | "config" | "sign_in";
  org_id: string;
  name: string;
  ciphertext: string;
}

/** Of every org: for sealing again, and for nothing else. */
export interface SealedStore {
  /** What does not begin with `prefix`, by org and name, behind the place given. */
  list(
    kind: SealedRow["kind"],
    prefix: string,
    after: { org_id: string; name: string },
    limit: number,
  ): Promise<SealedRow[]>;
  /** In one transaction, each only if it is still what was read; answers how many were. */
  replace(changes: readonly { row: SealedRow; ciphertext: string }[]): Promise<number>;
}

/** Seals and opens secret values. AAD is org and name, so a row moved elsewhere does not open. */
export interface SecretVault {
  seal(org_id: string, name: string, value: string): string;
  open(org_id: string, name: string, ciphertext: string): string;
  /** The newest, which seals, comes first. `prefix` is how every text begins that it has sealed. */
  keys(): { id: string; prefix: string }[];
  /** Seals with a new key from now on; the key is kept for good before that. */
  addKey(): void;
}

export interface KeyStore {
  create(key: ApiKey, token_hash: string, facts: Facts): Promise<void>;
  /** Revoked and expired ones included: the caller decides. Hot: called once per request. */
  byHash(token_hash: string): MaybePromise<ApiKey | null>;
  /** Always fresh. Hot: asked whenever work of a key goes on. */
  get(org_id: string, id: string): MaybePromise<ApiKey | null>;
  list(scope: Scope, page: Page): Promise<PageOf<ApiKey>>;
  revoke(scope: Scope, id: string, at: string, facts: Facts): Promise<boolean>;
}

export interface DelegationStore {
  byHash(token_hash: string): Promise<NewDelegation | null>;
}

export type IdempotencyState =
  | { state: "new" }
  | { state: "done"; status: number; body: string }
  | { state: "in_progress" }
  | { state: "conflict" };

/** A key that is claimed and answered by the very write that does the work. */
export interface OnceKey {
  /** Whose key it is; what it makes may lie in a project of this org. */
  scope: Scope;
  key: string;
  digest: string;
  now: number;
  stale_ms: number;
  /** What a repeat is to know beside the ids that the write itself makes. */
  answer?: JsonObject;
}

export interface IdempotencyStore {
  /** Claims the key for a request with this digest. A claim whose request died frees itself after `stale_ms`. */
  begin(scope: Scope, key: string, digest: string, now: number, stale_ms: number): Promise<IdempotencyState>;
  /** What `begin` would say, without a claim. */
  find(scope: Scope, key: string, digest: string, now: number, stale_ms: number): Promise<IdempotencyState>;
  finish(scope: Scope, key: string, status: number, body: string, now: number): Promise<void>;
  abandon(scope: Scope, key: string): Promise<void>;
  /** Removes what has expired; answers how many. */
  sweep(now: number): Promise<number>;
}

export interface AuditStore {
  append(entry: NewAudit): Promise<void>;
  list(scope: Scope, filter: { action?: string }, page: Page): Promise<PageOf<AuditEntry>>;
  /** Re-computes the hash chain; the first broken seq, or null. */
  verify(): Promise<number | null>;
  /** The newest entry, as the store itself names it. */
  head(): Promise<AuditMark>;
  /** Null: there is no such entry. Given as it is stored. */
  hashAt(seq: number): Promise<string | null>;
  /** Computes the hashes of at most `limit` entries behind a mark again; where the first wrong one is, or how far it came. */
  verifyStep(
    from: AuditMark,
    limit: number,
  ): Promise<{ broken: { seq: number; gone: boolean } | null; reached: AuditMark }>;
  /** Of every org, oldest first. */
  after(seq: number, limit: number): Promise<AuditEntry[]>;
  /** This process wrote an entry. */
  onAppended(listener: () => void): () => void;
}
