/**
 * Secrets of slots that the operator delivers by environment, for dialects with no other channel, and those that a
 * dialect tells its process once. Such a process knows them from its birth: it serves no call with other values, and
 * waits for none ahead of time.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { Dialect, ProcessOrder } from "../ports/dialect.ts";

/** Variables with their values; null: none, which is the usual call. */
export function secretEnvironment({ grant, context }: ProcessOrder): Record<string, string> | null {
  if (grant.secret_env === undefined) return null;
  const env: Record<string, string> = {};
  for (const [slot, variable] of Object.entries(grant.secret_env)) {
    const value = context.secrets[slot];
    if (value !== undefined) env[variable] = value;
  }
  return Object.keys(env).length === 0 ? null : env;
}

/** All that a process knows from its birth; null: nothing. */
export function bornWith(
  order: ProcessOrder,
  { secrets_at_start }: Pick<Dialect, "secrets_at_start">,
  env: Record<string, string> | null,
): Record<string, string> | null {
  const { secrets } = order.context;
  if (secrets_at_start !== true || Object.keys(secrets).length === 0) return env;
  return { ...secrets, ...env };
}

/** Tells processes with other values apart, in words that say nothing of the values. */
export class BirthKeys {
  readonly #salt = randomBytes(32);

  of(pool_key: string, known: Record<string, string> | null): string {
    if (known === null) return pool_key;
    const digest = createHmac("sha256", this.#salt).update(JSON.stringify(known)).digest("hex");
    return `${pool_key}/${digest}`;
  }
}
