/** Stores of secrets (ciphertext only), API keys, delegated tokens, idempotency keys and the audit log. */
import type { ApiKey, AuditEntry, JsonObject, MaybePromise, Secret } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { AuditMark } from "./audit-marks.ts";
import type { ChangeRecords, NewAudit } from "./change-records.ts";
import type { NewDelegation } from "./invocation-store.ts";

export interface SealedSecret {
  org_id: string;
  /** The owner of a new secret: a project or, if null or absent, the whole org. */
  project_id?: string | null;
  name: string;
  /** Opaque to the store; carries the id of the key that sealed it. */
  ciphertext: string;
  last4: string;
}

export interface SecretStore {
  /**
   * Creates version 1 or writes the next version. Throws `policy.denied` if a project replaces a secret that it does
   * not own. The whole org may replace any secret.
   */
  put(secret: SealedSecret, now: string, records: ChangeRecords): Promise<Secret>;
  get(org_id: string, name: string): Promise<Secret | null>;
  /** For the vault only. */
  getSealed(org_id: string, name: string): Promise<SealedSecret | null>;
  /** For a project, lists its own secrets and those of the org. */
  list(scope: Scope, page: Page): Promise<PageOf<Secret>>;
  /**
   * Throws `policy.denied` if a project removes a secret that it does not own, and `secret.in_use` with
   * details.used_by while a binding uses it.
   */
  remove(scope: Scope, name: string, records: ChangeRecords): Promise<boolean>;
}

/** A row that holds a sealed value. */
export interface SealedRow {
  kind: "secret" | "config" | "sign_in";
  org_id: string;
  name: string;
  ciphertext: string;
}

/** Sealed values of all orgs, for key rotation only. */
export interface SealedStore {
  /** Rows whose ciphertext does not start with `prefix`, sorted by org and name, starting after `after`. */
  list(
    kind: SealedRow["kind"],
    prefix: string,
    after: { org_id: string; name: string },
    limit: number,
  ): Promise<SealedRow[]>;
  /**
   * Replaces each row if it has not changed since it was read, in one transaction. Returns the number of replaced
   * rows.
   */
  replace(changes: readonly { row: SealedRow; ciphertext: string }[]): Promise<number>;
}

/**
 * Encrypts and decrypts secret values. Org and name are authenticated (AAD), so ciphertext that was copied to another
 * row cannot be decrypted.
 */
export interface SecretVault {
  seal(org_id: string, name: string, value: string): string;
  open(org_id: string, name: string, ciphertext: string): string;
  /** The newest key, which is used for sealing, comes first. Every ciphertext of a key starts with its `prefix`. */
  keys(): { id: string; prefix: string }[];
  /** Adds a key and uses it for sealing after it has been stored durably. */
  addKey(): void;
}

export interface KeyStore {
  create(key: ApiKey, token_hash: string, records: ChangeRecords): Promise<void>;
  /**
   * Includes revoked and expired keys; the caller must check for them. Called for every request, and therefore cached
   * (benchmark http.invoke).
   */
  findByHash(token_hash: string): MaybePromise<ApiKey | null>;
  /** Never stale. Called whenever work on behalf of a key continues. */
  get(org_id: string, id: string): MaybePromise<ApiKey | null>;
  list(scope: Scope, page: Page): Promise<PageOf<ApiKey>>;
  revoke(scope: Scope, id: string, at: string, records: ChangeRecords): Promise<boolean>;
}

export interface DelegationStore {
  findByHash(token_hash: string): Promise<NewDelegation | null>;
}

export type IdempotencyState =
  | { state: "new" }
  | { state: "done"; status: number; body: string }
  | { state: "in_progress" }
  | { state: "conflict" };

/** An idempotency key. The transaction that does the work claims it and stores the response for repeats. */
export interface IdempotencyClaim {
  /** The owner of the key; the created resource may belong to a project of the same org. */
  scope: Scope;
  key: string;
  digest: string;
  now: number;
  stale_ms: number;
  /** How long a repeat finds the result. If absent, the default for all requests applies. */
  ttl_ms?: number;
  /** Fields of the stored response in addition to the ids that the write creates. */
  response_fields?: JsonObject;
}

export interface IdempotencyStore {
  /** Claims the key for a request with this digest. The claim of a crashed request expires after `stale_ms`. */
  begin(scope: Scope, key: string, digest: string, now: number, stale_ms: number): Promise<IdempotencyState>;
  /** Resolves to what `begin` would return, without claiming the key. */
  find(scope: Scope, key: string, digest: string, now: number, stale_ms: number): Promise<IdempotencyState>;
  finish(scope: Scope, key: string, status: number, body: string, now: number): Promise<void>;
  abandon(scope: Scope, key: string): Promise<void>;
  /** Removes expired keys and returns their number. */
  sweep(now: number): Promise<number>;
}

export interface AuditStore {
  append(entry: NewAudit): Promise<void>;
  list(scope: Scope, filter: { action?: string }, page: Page): Promise<PageOf<AuditEntry>>;
  /** Recomputes the hash chain and returns the first broken seq, or null. */
  verify(): Promise<number | null>;
  /** The newest entry according to the store. */
  head(): Promise<AuditMark>;
  /** The stored hash of an entry, or null if there is no such entry. */
  hashAt(seq: number): Promise<string | null>;
  /**
   * Recomputes the hashes of up to `limit` entries after a mark. Returns the first broken entry and the last verified
   * one.
   */
  verifyStep(
    from: AuditMark,
    limit: number,
  ): Promise<{ broken: { seq: number; gone: boolean } | null; reached: AuditMark }>;
  /** Entries of all orgs, oldest first. */
  after(seq: number, limit: number): Promise<AuditEntry[]>;
  /** Calls the listener when this process has written an entry. */
  onAppended(listener: () => void): () => void;
}
