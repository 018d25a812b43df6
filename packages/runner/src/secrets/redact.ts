/**
 * Redacts the secrets of a request from everything that leaves the runner: results, events, errors, stderr. The
 * contract defines how secrets are found, because the kernel redacts once more before it records anything.
 */
import { createRedactor, type InvocationContext, type Json, TOKEN_PREFIX_SOURCE } from "@backplane/contract";

/**
 * Matches tokens of the gateway, among them those of all calls that the process served. Host names are in lower case,
 * and a token may be followed by a domain, so even a part of a token is removed.
 */
export const GATEWAY_TOKEN = new RegExp(`${TOKEN_PREFIX_SOURCE}[A-Za-z0-9_.-]+`, "gi");

export interface CallRedactor {
  /** False if there is nothing to redact; callers then skip the work. */
  readonly active: boolean;
  text(value: string): string;
  json<T extends Json>(value: T): T;
  /** Redacts text that was cut from a stream; drops even a part of a secret at either end. */
  excerpt(value: string): string;
}

const NO_REDACTION: CallRedactor = {
  active: false,
  text: (value) => value,
  json: (value) => value,
  excerpt: (value) => value,
};

/** Most calls have no secrets, and then this allocates nothing (benchmark runner.warm-call). */
export function redactorFor(context: InvocationContext): CallRedactor {
  if (context.gateway.delegation_token === undefined) {
    let has_secrets = false;
    for (const _slot in context.secrets) has_secrets = true;
    if (!has_secrets) return NO_REDACTION;
  }
  return createCallRedactor(secretsOf(context));
}

export function secretsOf(context: InvocationContext): string[] {
  const values: string[] = [];
  for (const slot in context.secrets) values.push(context.secrets[slot]!);
  const token = context.gateway.delegation_token;
  if (token !== undefined) values.push(token);
  return values;
}

export function createCallRedactor(secrets: readonly string[]): CallRedactor {
  const redactor = createRedactor(secrets);
  return redactor === null ? NO_REDACTION : { active: true, ...redactor };
}

/** For refusals, which report requested host names in lower case: also redacts the lower-case form of each secret. */
export function refusalRedactor(secrets: readonly string[]): CallRedactor {
  return createCallRedactor([...new Set(secrets.flatMap((secret) => [secret, secret.toLowerCase()]))]);
}

/**
 * Files are stored unchanged, so a file with a secret is refused, whereas text is redacted. A file may contain UTF-8
 * text between other bytes, or text with one byte per character.
 */
export function hasSecret(content: Buffer, redactor: CallRedactor): boolean {
  if (!redactor.active) return false;
  return (["utf8", "latin1"] as const).some((encoding) => {
    const text = content.toString(encoding);
    return redactor.text(text) !== text;
  });
}

/** How many secret values of recent calls are redacted for one process. */
const REMEMBERED = 8;

/**
 * Returns a redactor for a call on a process that served other calls, whose values can appear in its output as well,
 * such as the value before a rotation. Adds the values of this call to `recent`. Usually `recent` contains nothing
 * else, and `own_redactor` is returned.
 */
export function redactorWithRecent(
  recent: string[],
  context: InvocationContext,
  own_redactor: CallRedactor,
): CallRedactor {
  const values = Object.values(context.secrets);
  for (const value of values) {
    if (recent.includes(value)) continue;
    recent.push(value);
    if (recent.length > REMEMBERED) recent.shift();
  }
  const earlier_values = recent.filter((value) => !values.includes(value));
  return earlier_values.length === 0
    ? own_redactor
    : createCallRedactor([...secretsOf(context), ...earlier_values]);
}
