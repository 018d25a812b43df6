/** The remote MCP server behind a binding. */

import { BackplaneError } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

/** The secret slot that is sent as the `Authorization` header. */
export const AUTHORIZATION_SLOT = "authorization";

export function isRemote({ package: { manifest } }: BoundPackage): boolean {
  return manifest.runtime.protocol === "mcp.http";
}

/** Whether the operator configured a credential, as a secret or a header. Such a binding has no sign-in. */
export function hasOwnCredential({ binding: { secrets, config } }: BoundPackage): boolean {
  if (secrets[AUTHORIZATION_SLOT] !== undefined) return true;
  const { headers } = config;
  const names = typeof headers === "object" && headers !== null ? Object.keys(headers) : [];
  return names.some((name) => name.toLowerCase() === AUTHORIZATION_SLOT);
}

export function serverUrl({ package: { package_id, manifest } }: BoundPackage): URL {
  const text = manifest.runtime.entrypoint[0] ?? "";
  if (!URL.canParse(text))
    throw new BackplaneError("package.invalid", `The entrypoint of ${package_id} is not a URL.`);
  return new URL(text);
}

export function loginCommand({ binding }: BoundPackage): string {
  return `backplane binding login ${binding.binding_id}`;
}
