/**
 * The tokens that the gateway issues: the admin token, API keys and delegated tokens. Everything that finds tokens by
 * their format uses this list. Login codes, the console's cookie and session ids have no prefix and no fixed format;
 * they are never part of a text that the gateway stores.
 */
export const TOKEN_PREFIXES = { admin: "bpa_", key: "bpk_", delegation: "vai_dlg_" } as const;

const PREFIXES: readonly string[] = Object.values(TOKEN_PREFIXES);

/** The pattern of a token's prefix, for use in a larger pattern. */
export const TOKEN_PREFIX_SOURCE = `(?:${PREFIXES.join("|")})`;

const TOKENS = new RegExp(`${TOKEN_PREFIX_SOURCE}[A-Za-z0-9_-]{20,}`, "g");

/** All tokens in a text, in order. Checks for a prefix first, which is fast and finds none in most texts. */
export function findTokens(text: string): RegExpExecArray[] {
  return PREFIXES.some((prefix) => text.includes(prefix)) ? [...text.matchAll(TOKENS)] : [];
}

export function replaceTokens(text: string, replacement: string): string {
  return PREFIXES.some((prefix) => text.includes(prefix)) ? text.replaceAll(TOKENS, replacement) : text;
}
