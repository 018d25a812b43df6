/**
 * Detects files that look like a credential, which must not be part of a package (pkg.no-secrets): by name, then by
 * well-known token formats in the content. A false positive costs one line in .vaiignore, a false negative a leaked
 * key.
 */
import { BackplaneError, TOKEN_PREFIX_SOURCE } from "@backplane/contract";
import type { FileScan } from "../archive/tree-writer.ts";

interface NameRule {
  name: RegExp;
  why: string;
  /** If set, both name and content must match. */
  content?: RegExp;
}

const NAMES: readonly NameRule[] = [
  { name: /^\.env(\..+)?$/, why: "environment files contain secrets" },
  { name: /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/, why: "it is named like a private SSH key" },
  { name: /\.(p12|pfx|jks|keystore|kdbx|ppk)$/i, why: "it is a key store" },
  { name: /^(admin\.token|secret\.key)$/, why: "it is a key of a Backplane home" },
  {
    name: /^(credentials|client_secret.*|service[-_]account.*)\.json$/i,
    why: "it is named like stored credentials",
  },
  { name: /^credentials$/, why: "it contains cloud credentials", content: /aws_|\bkey\b|token/i },
  { name: /^\.(netrc|pgpass|git-credentials|pypirc|htpasswd)$/, why: "it contains passwords" },
  { name: /^\.npmrc$/, why: "it contains a registry token", content: /_authToken|_auth\s*=|_password/ },
  { name: /^config\.json$/, why: "it contains registry logins", content: /"auths"\s*:\s*\{[^}]*"auth"/ },
  {
    name: /^(\.?dockerconfig\.?json|\.?dockercfg)$/,
    why: "it contains registry logins",
    content: /"auths?"\s*:/,
  },
];

const CONTENTS: readonly { pattern: RegExp; why: string }[] = [
  {
    // In a string literal, line breaks and slashes are escaped, for example in the key file of a Google service
    // account. No two alternatives match the same character, so the search takes linear time.
    pattern:
      /-----BEGIN [A-Z ]{0,32}PRIVATE KEY( BLOCK)?-----(?:\s|\\{1,4}[nr])(?:[A-Za-z0-9+/=\s:,-]|\\{1,4}[nr/]){40}/,
    why: "it contains a private key",
  },
  {
    // The character before the token may be the letter of an escaped line break.
    pattern: new RegExp(`(?:\\b|\\\\[nrt])${TOKEN_PREFIX_SOURCE}[A-Za-z0-9_-]{20}`),
    why: "it contains a token of a Backplane gateway",
  },
  { pattern: /\b(AKIA|ASIA)(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}\b/, why: "it contains an AWS access key" },
  { pattern: /\bgh[pousr]_[A-Za-z0-9]{36}/, why: "it contains a GitHub token" },
  { pattern: /\bgithub_pat_[A-Za-z0-9_]{50}/, why: "it contains a GitHub token" },
  { pattern: /\bglpat-[A-Za-z0-9_-]{20}/, why: "it contains a GitLab token" },
  { pattern: /\bxox[abeprs]-[A-Za-z0-9-]{20}/, why: "it contains a Slack token" },
  {
    pattern: /hooks\.slack\.com\/services\/T[A-Z0-9]{6,}\/B[A-Z0-9]{6,}\/[A-Za-z0-9]{20}/,
    why: "it contains a Slack webhook",
  },
  {
    pattern: /\bsk-(ant-|proj-|svcacct-)[A-Za-z0-9_-]{32}/,
    why: "it contains an API key of a model provider",
  },
  { pattern: /\b[rs]k_live_[A-Za-z0-9]{20}/, why: "it contains a payment key" },
  { pattern: /\bnpm_[A-Za-z0-9]{36}\b/, why: "it contains an npm token" },
  { pattern: /\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20}/, why: "it contains a PyPI token" },
  { pattern: /\bhf_[A-Za-z]{34}\b/, why: "it contains a Hugging Face token" },
  { pattern: /\bAIza[A-Za-z0-9_-]{35}\b/, why: "it contains a Google API key" },
];

/** Every match of a pattern of CONTENTS contains one of these. Searching for them first is several times faster. */
const ANCHOR = new RegExp(
  `PRIVATE KEY|A(?:KI|SI)A|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|hooks\\.slack\\.com|sk-(?:ant|proj|svcacct)-|k_live_|npm_|pypi-AgE|hf_|AIza|${TOKEN_PREFIX_SOURCE}`,
);

interface CredentialScan extends FileScan {
  /** Why the part of the file that was scanned looks like a credential; null if it does not. */
  reason(): string | null;
}

/**
 * The end of a chunk is searched again with the next one, so that a token that spans two chunks is found. The overlap
 * is longer than every match of a pattern with a maximum length; the longest is a private key whose 40 characters are
 * all escaped line breaks. A pattern with `*`, `+` or `,}` has no maximum, so a longer match that spans two chunks
 * can be missed.
 */
const OVERLAP = 512;

/** Scans a file in chunks, so that a large file neither fills the memory nor blocks the event loop. */
function scanForCredentials(path: string): CredentialScan {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const is_sample = /\.(example|sample|template)$/.test(name);
  const name_rules = is_sample ? [] : NAMES.filter((rule) => rule.name.test(name));
  // Published packages contain keys for their tests and documentation, which are public already.
  const contents = /(?:^|\/)node_modules\//.test(path) ? [] : CONTENTS;
  let reason = name_rules.find((rule) => rule.content === undefined)?.why ?? null;
  let tail = "";
  return {
    push(chunk) {
      if (reason !== null) return;
      const text = tail + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString("latin1");
      reason =
        name_rules.find((rule) => rule.content?.test(text))?.why ??
        (ANCHOR.test(text) ? contents.find(({ pattern }) => pattern.test(text))?.why : undefined) ??
        null;
      tail = text.slice(-OVERLAP);
    },
    reason: () => reason,
  };
}

interface Credential {
  file: string;
  why: string;
}

/** A `folder` is packed by its author, a `plugin folder` is copied to the home of a gateway. */
export type CredentialSource =
  | "folder"
  | "plugin folder"
  | "archive"
  | "npm package"
  | "Python package"
  | "container image";

export interface CredentialCheck {
  scan: (path: string) => FileScan;
  /** Throws `package.credential_file` with all files that contain a credential, if there are any. */
  assertNone(source: CredentialSource): void;
}

/** Scans all files of a package. */
export function createCredentialCheck(): CredentialCheck {
  // Only the findings are kept, because a scan holds a part of its file.
  const reasons = new Map<string, string>();
  return {
    scan(path) {
      const scan = scanForCredentials(path);
      const recordReason = () => {
        const why = scan.reason();
        if (why !== null) reasons.set(path, why);
      };
      recordReason();
      return {
        push(chunk) {
          scan.push(chunk);
          recordReason();
        },
      };
    },
    assertNone(source) {
      const files = [...reasons].map(([file, why]) => ({ file, why })).sort(byFile);
      if (files.length > 0) throw credentialError(files, source);
    },
  };
}

function byFile(left: Credential, right: Credential): number {
  return left.file < right.file ? -1 : 1;
}

function fixFor(source: CredentialSource): string | null {
  if (source === "folder") return null;
  if (source === "plugin folder")
    return "Move the file out of the folder, or link the folder with --editable.";
  return `Ask the author to remove the file from the ${source} and to revoke the credential.`;
}

function credentialError(credentials: Credential[], source: CredentialSource): BackplaneError {
  const first = credentials[0] as Credential;
  const more = credentials.length > 1 ? ` (and ${credentials.length - 1} more, see details.files)` : "";
  const action = source === "folder" ? "packed" : "installed";
  const fix = fixFor(source);
  return new BackplaneError(
    "package.credential_file",
    `${first.file} cannot be ${action}: ${first.why}${more}.`,
    {
      details: { files: credentials.map((item) => ({ ...item })) },
      ...(fix === null ? {} : { fix }),
    },
  );
}
