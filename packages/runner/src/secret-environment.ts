/**
 * Secrets of slots that the operator delivers by environment, for dialects with no other channel. Such a process knows
 * them from its birth: it serves no call with other values, and waits for none ahead of time.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { ProcessOrder } from "./dialects/dialect.ts";

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

/** Tells processes with other values apart, in words that say nothing of the values. */
export class EnvironmentKeys {
  readonly #salt = randomBytes(32);

  of(pool_key: string, env: Record<string, string> | null): string {
    if (env === null) return pool_key;
    const digest = createHmac("sha256", this.#salt).update(JSON.stringify(env)).digest("hex");
    return `${pool_key}/${digest}`;
  }
}
