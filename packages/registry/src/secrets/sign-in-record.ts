/** The stored state of a sign-in. The whole record is sealed, and only these functions decode it. */
import type { ChangeRecords, KernelDeps, SealedSignIn, ServerChallenge } from "@backplane/ports";

type OAuthGrant = "authorization_code" | "client_credentials";

export interface OAuthClient {
  id: string;
  secret?: string;
  /** A PKCS#8 key in PEM, for private_key_jwt. */
  private_key?: string;
  /** The method that the authorization server returned when it registered the client. */
  auth_method?: string;
  /**
   * `given`: the request to sign in supplied the client id. `document`: the id is the URL of the client's metadata
   * document. `registered`: dynamic client registration (RFC 7591).
   */
  kind: "given" | "document" | "registered";
  /** The redirect URI of the registration. Another redirect URI needs another client. */
  redirect_uri: string | null;
}

/** Everything that is needed to request, renew and revoke tokens. */
export interface TokenSource {
  issuer: string;
  resource: string;
  token_endpoint: string;
  revocation_endpoint: string | null;
  auth_methods: string[] | null;
  client: OAuthClient;
  grant: OAuthGrant;
  /** The requested scope; null when none was requested. */
  scope: string | null;
}

export interface Tokens {
  access_token: string;
  refresh_token: string | null;
  /** Epoch milliseconds; null when the server did not say. */
  expires_at: number | null;
}

export interface SignInSession extends TokenSource, Tokens {
  signed_in_by: string;
  signed_in_at: number;
}

export interface SignInRecord {
  /** The last challenge of the server. The next login requests the scopes that the challenge lists. */
  challenge: ServerChallenge | null;
  /** Why a person has to sign in; null when nobody has to. */
  needed: string | null;
  session: SignInSession | null;
}

export interface StoredSignIn {
  row: SealedSignIn;
  record: SignInRecord;
}

export const EMPTY_SIGN_IN: SignInRecord = { challenge: null, needed: null, session: null };

type SignInDeps = Pick<KernelDeps, "store" | "vault">;

export function signInSealName(binding_id: string): string {
  return `sign_in/${binding_id}`;
}

export function loginSealName(binding_id: string): string {
  return `login/${binding_id}`;
}

export async function readStoredSignIn(
  { store, vault }: SignInDeps,
  org_id: string,
  binding_id: string,
): Promise<StoredSignIn | null> {
  const row = await store.sign_ins.get(org_id, binding_id);
  if (row === null) return null;
  const text = vault.open(org_id, signInSealName(binding_id), row.ciphertext);
  return { row, record: JSON.parse(text) as SignInRecord };
}

/** Resolves to false when the row changed since it was read, or the binding was removed. */
export async function writeSignIn(
  { store, vault }: SignInDeps,
  key: { org_id: string; binding_id: string },
  before: StoredSignIn | null,
  record: SignInRecord,
  options: { renewing_until?: number; records?: ChangeRecords } = {},
): Promise<boolean> {
  const { org_id, binding_id } = key;
  const row: SealedSignIn = {
    revision: (before?.row.revision ?? 0) + 1,
    renewing_until: options.renewing_until ?? 0,
    ciphertext: vault.seal(org_id, signInSealName(binding_id), JSON.stringify(record)),
  };
  return await store.sign_ins.put(org_id, binding_id, row, options.records ?? {});
}
