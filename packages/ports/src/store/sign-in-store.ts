/** Sign-ins at servers of bindings (ciphertext only) and the newest attempt at each; both go with their binding. */
import type { MaybePromise } from "@backplane/contract";
import type { Facts } from "./facts.ts";

export interface SealedSignIn {
  /** Rises with every write; it is the lock. */
  revision: number;
  /** Epoch ms until which somebody renews the token; 0: nobody. */
  renewing_until: number;
  ciphertext: string;
}

/** One attempt to sign in. Its secrets are known by their hashes alone. */
export interface Login {
  org_id: string;
  binding_id: string;
  state_hash: string;
  /** Of what the address holds that a browser is sent to first. */
  start_hash: string;
  /** Of what the first browser got that opened that address; null: none did. */
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
  get(org_id: string, binding_id: string): MaybePromise<SealedSignIn | null>;
  /** Writes if the stored revision is the one before it (none for 1) and the binding is there; else false. */
  put(org_id: string, binding_id: string, row: SealedSignIn, facts: Facts): Promise<boolean>;
  remove(org_id: string, binding_id: string, facts: Facts): Promise<boolean>;
  /** Takes the place of an attempt before it. False: there is no such binding. */
  begin(login: Omit<Login, "browser_hash">, facts: Facts): Promise<boolean>;
  /** For the first browser that comes; a later one finds the hash of another. Null: nothing waits there. */
  open(start_hash: string, browser_hash: string, now: number): Promise<Login | null>;
  /** The attempt that waits, as long as it does. */
  waiting(state_hash: string, now: number): Promise<Login | null>;
  /** Once: of several who come with the same state, one gets it. */
  take(state_hash: string, now: number): Promise<Login | null>;
  /** How an attempt that was taken ended. */
  end(state_hash: string, status: "done" | "failed", message: string | null): Promise<void>;
  login(org_id: string, binding_id: string): Promise<LoginState | null>;
}
