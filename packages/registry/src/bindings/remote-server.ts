/** What a binding says about the remote MCP server behind it. */

import { BackplaneError } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

/** The slot that is sent as the `Authorization` header of a remote server. */
export const AUTHORIZATION_SLOT = "authorization";

export function isRemote({ package: { manifest } }: BoundPackage): boolean {
  return manifest.runtime.protocol === "mcp.http";
}

/** The operator's own secret or header; then there is no sign-in beside it. */
export function hasOwnCredential({ binding: { secrets, config } }: BoundPackage): boolean {
  if (secrets[AUTHORIZATION_SLOT] !== undefined) return true;
  const { headers } = config;
  const names = typeof headers === "object" && headers !== null ? Object.keys(headers) : [];
  return names.some((name) => name.toLowerCase() === AUTHORIZATION_SLOT);
}

export function serverUrl({ package: { package_id, manifest } }: BoundPackage): URL {
  const text = manifest.runtime.entrypoint[0] ?? "";
  if (!URL.canParse(text)) throw new BackplaneError("package.invalid", `${package_id} names no address`);
  return new URL(text);
}

export function loginCommand({ binding }: BoundPackage): string {
  return `backplane binding login ${binding.binding_id}`;
}
