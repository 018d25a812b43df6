/** Random tokens, and the hashes under which they are stored. */

import { hash } from "node:crypto";
import type { KernelDeps } from "@backplane/ports";

export function randomToken(deps: Pick<KernelDeps, "random">): string {
  const bytes = new Uint8Array(32);
  deps.random(bytes);
  return Buffer.from(bytes).toString("base64url");
}

export function tokenHash(token: string): string {
  return hash("sha256", token, "hex");
}
