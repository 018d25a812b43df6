/**
 * Takes the secrets of an order out of everything that leaves the runner: results, events, errors, stderr. How a
 * secret is found is the contract's to say, since the kernel looks once more before it records anything.
 */
import { createRedactor as findSecrets, type InvocationContext, type Json } from "@backplane/contract";

export { REDACTED } from "@backplane/contract";

/** Of any call that the same process served. */
export const DELEGATION_TOKEN = /vai_dlg_[A-Za-z0-9_.-]+/gi;

export interface Redactor {
  /** False: there is nothing to look for, and callers can skip the work. */
  readonly active: boolean;
  text(value: string): string;
  json<T extends Json>(value: T): T;
  /** Text cut out of a stream: a secret that the cut left in two is dropped at either end as well. */
  excerpt(value: string): string;
}

const NOTHING: Redactor = {
  active: false,
  text: (value) => value,
  json: (value) => value,
  excerpt: (value) => value,
};

/** The common case costs nothing: most calls carry no secret. */
export function redactorFor(context: InvocationContext): Redactor {
  if (context.gateway.delegation_token === undefined) {
    let any = false;
    for (const _slot in context.secrets) any = true;
    if (!any) return NOTHING;
  }
  return createRedactor(secretsOf(context));
}

export function secretsOf(context: InvocationContext): string[] {
  const values: string[] = [];
  for (const slot in context.secrets) values.push(context.secrets[slot]!);
  const token = context.gateway.delegation_token;
  if (token !== undefined) values.push(token);
  return values;
}

export function createRedactor(secrets: readonly string[]): Redactor {
  const found = findSecrets(secrets);
  return found === null ? NOTHING : { active: true, ...found };
}

/** For what a plugin asked the network for: names are lower case by the time that they are refused. */
export function refusalRedactor(secrets: readonly string[]): Redactor {
  return createRedactor([...new Set(secrets.flatMap((secret) => [secret, secret.toLowerCase()]))]);
}

/** So many values a process is believed to know from calls before. */
const REMEMBERED = 8;

/**
 * For a call on a process that served others: what those were given may come out here as well, such as the value
 * before a rotation. Adds this call's values to `recent`; the usual call finds its own there and nothing else.
 */
export function redactorAmong(recent: string[], context: InvocationContext, own: Redactor): Redactor {
  const values = Object.values(context.secrets);
  for (const value of values) {
    if (recent.includes(value)) continue;
    recent.push(value);
    if (recent.length > REMEMBERED) recent.shift();
  }
  const others = recent.filter((value) => !values.includes(value));
  return others.length === 0 ? own : createRedactor([...secretsOf(context), ...others]);
}
