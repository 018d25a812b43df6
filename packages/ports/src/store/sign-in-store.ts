/** Sign-ins to remote servers (ciphertext only) and the latest attempt of each, deleted together with their binding. */
import type { MaybePromise } from "@backplane/contract";
import type { ChangeRecords } from "./change-records.ts";

export interface SealedSignIn {
  /** Rises with every write and serves as an optimistic lock. */
  revision: number;
  /** When a node's claim to renew the token expires, in epoch ms; 0 if no node is renewing it. */
  renewing_until: number;
  ciphertext: string;
}

/** One attempt to sign in. Only hashes of its secrets are stored. */
export interface Login {
  org_id: string;
  binding_id: string;
  state_hash: string;
  /** Hash of the secret in the sign-in URL. */
  start_hash: string;
  /** Hash of the secret given to the first browser that opened the URL; null if none has. */
  browser_hash: string | null;
  actor: string;
  expires_at: number;
  ciphertext: string;
}

export interface LoginState {
  status: "pending" | "taken" | "done" | "failed";
  message: string | null;
  actor: string;
  expires_at: number;
}

export interface SignInStore {
  /** Cached: read by each call of a remote server (benchmark mcp.http-call). */
  get(org_id: string, binding_id: string): MaybePromise<SealedSignIn | null>;
  /** Writes `row` if the binding exists and has the previous revision (none for 1); otherwise resolves to false. */
  put(org_id: string, binding_id: string, row: SealedSignIn, records: ChangeRecords): Promise<boolean>;
  remove(org_id: string, binding_id: string, records: ChangeRecords): Promise<boolean>;
  /** Replaces an earlier attempt. Resolves to false if the binding does not exist. */
  beginLogin(login: Omit<Login, "browser_hash">, records: ChangeRecords): Promise<boolean>;
  /**
   * Assigns the attempt to the first browser; a later one gets the first browser's hash. Null if no attempt is
   * pending.
   */
  openLogin(start_hash: string, browser_hash: string, now: number): Promise<Login | null>;
  /** Resolves to the attempt while it is pending. */
  getPendingLogin(state_hash: string, now: number): Promise<Login | null>;
  /** Takes the attempt once: of several callers with the same state, only one gets it. */
  takeLogin(state_hash: string, now: number): Promise<Login | null>;
  /** Records how a taken attempt ended. */
  endLogin(state_hash: string, status: "done" | "failed", message: string | null): Promise<void>;
  /** The state of the latest attempt; null if there is none. */
  getLoginState(org_id: string, binding_id: string): Promise<LoginState | null>;
}
