/**
 * Secrets that a process receives when it starts: those that the operator passes as environment variables, for dialects
 * with no other channel, those that the configuration of an MCP server refers to, and those that a dialect passes once.
 * Such a process is not used for calls with other values and cannot be prewarmed.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { ProcessRequest } from "@backplane/ports";
import type { Dialect } from "../ports/dialect.ts";
import { configuredEnvironment, configuredSecrets, configuredSlots } from "./configured-secrets.ts";

/** Variables with their values; null in the usual case of none. */
export function secretEnvironment(request: ProcessRequest): Record<string, string> | null {
  const { grant, context } = request;
  if (grant.secret_env === undefined && configuredSlots(request).length === 0) return null;
  const env = configuredEnvironment(request);
  for (const [slot, variable] of Object.entries(grant.secret_env ?? {})) {
    const value = context.secrets[slot];
    if (value !== undefined) env[variable] = value;
  }
  return Object.keys(env).length === 0 ? null : env;
}

/** All secrets that a process receives when it starts; null if there are none. */
export function secretsKnownAtStart(
  request: ProcessRequest,
  { secrets_at_start }: Pick<Dialect, "secrets_at_start">,
  env: Record<string, string> | null,
): Record<string, string> | null {
  const { secrets } = request.context;
  if (configuredSlots(request).length > 0) return { ...env, ...configuredSecrets(request) };
  if (secrets_at_start !== true || Object.keys(secrets).length === 0) return env;
  return { ...secrets, ...env };
}

/** Keys that separate processes with different secrets without revealing them. */
export class ProcessKeys {
  readonly #salt = randomBytes(32);

  derive(pool_key: string, secrets: Record<string, string> | null): string {
    if (secrets === null) return pool_key;
    const digest = createHmac("sha256", this.#salt).update(JSON.stringify(secrets)).digest("hex");
    return `${pool_key}/${digest}`;
  }
}
