/** What is kept of a sign-in, sealed whole: nothing of it is read anywhere but here. */
import type { Facts, KernelDeps, SealedSignIn, ServerChallenge } from "@backplane/ports";

type OAuthGrant = "authorization_code" | "client_credentials";

export interface OAuthClient {
  id: string;
  secret?: string;
  /** PKCS#8 in PEM, for private_key_jwt. */
  private_key?: string;
  /** As the authorization server said when it registered us. */
  auth_method?: string;
  /** `given`: registered by a person beforehand. `document`: its id is the address of its description. */
  kind: "given" | "document" | "registered";
  /** What it was registered with; another address is another client. */
  redirect_uri: string | null;
}

/** Where tokens come from. */
export interface TokenSource {
  issuer: string;
  resource: string;
  token_endpoint: string;
  revocation_endpoint: string | null;
  auth_methods: string[] | null;
  client: OAuthClient;
  grant: OAuthGrant;
  /** What was asked for; null: nothing was named. */
  scope: string | null;
}

export interface Tokens {
  access_token: string;
  refresh_token: string | null;
  /** Epoch ms; null: the server did not say. */
  expires_at: number | null;
}

export interface SignInSession extends TokenSource, Tokens {
  signed_in_by: string;
  signed_in_at: number;
}

export interface SignInRecord {
  /** What the server asked for last; the next login goes by it. */
  challenge: ServerChallenge | null;
  /** Why a person has to sign in; null: nobody has to. */
  needed: string | null;
  session: SignInSession | null;
}

export interface StoredSignIn {
  row: SealedSignIn;
  record: SignInRecord;
}

export const EMPTY_SIGN_IN: SignInRecord = { challenge: null, needed: null, session: null };

type Parts = Pick<KernelDeps, "store" | "vault">;

export function signInSealName(binding_id: string): string {
  return `sign_in/${binding_id}`;
}

export function loginSealName(binding_id: string): string {
  return `login/${binding_id}`;
}

export async function readSignIn(
  { store, vault }: Parts,
  org_id: string,
  binding_id: string,
): Promise<StoredSignIn | null> {
  const row = await store.sign_ins.get(org_id, binding_id);
  if (row === null) return null;
  const text = vault.open(org_id, signInSealName(binding_id), row.ciphertext);
  return { row, record: JSON.parse(text) as SignInRecord };
}

/** False: somebody else wrote since it was read, or the binding is gone. */
export async function writeSignIn(
  { store, vault }: Parts,
  at: { org_id: string; binding_id: string },
  before: StoredSignIn | null,
  record: SignInRecord,
  more: { renewing_until?: number; facts?: Facts } = {},
): Promise<boolean> {
  const { org_id, binding_id } = at;
  const row: SealedSignIn = {
    revision: (before?.row.revision ?? 0) + 1,
    renewing_until: more.renewing_until ?? 0,
    ciphertext: vault.seal(org_id, signInSealName(binding_id), JSON.stringify(record)),
  };
  return await store.sign_ins.put(org_id, binding_id, row, more.facts ?? {});
}
