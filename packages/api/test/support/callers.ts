/** Callers as authentication would create them. */
import type { Caller } from "@backplane/ports";

const SCOPE = { org_id: "org_local", project_id: "proj_default" };
export const ADMIN: Caller = { actor: "admin", scope: SCOPE, role: "owner", scopes: ["admin"], admin: true };
export const userNamed = (actor: string): Caller => ({
  actor,
  scope: SCOPE,
  role: "user",
  scopes: [],
  admin: false,
});
