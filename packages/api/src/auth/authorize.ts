import { BackplaneError } from "@backplane/contract";
import type { Caller } from "@backplane/kernel";
import type { RouteAuth } from "../route.ts";

/** Whether this caller may use a route at all. What it may see there is the kernel's to decide. */
export function authorize(caller: Caller, auth: Exclude<RouteAuth, "public">): void {
  if ("host" in auth) {
    if (caller.actor !== "admin") throw lacking("admin token");
    return;
  }
  const delegation = caller.delegation;
  if (delegation !== undefined) {
    // A delegated token opens only what is written for it, whatever its caller's scopes would say.
    const needs = "scope" in auth ? auth.delegated : undefined;
    if (needs === undefined || (needs !== "any" && !delegation.scopes.includes(needs)))
      throw lacking(needs ?? "a credential that is not delegated");
    return;
  }
  if ("any" in auth || caller.admin) return;
  if (!caller.scopes.includes(auth.scope) && !caller.scopes.includes("admin")) throw lacking(auth.scope);
}

function lacking(needs: string): BackplaneError {
  return new BackplaneError("auth.scope", `The credential does not open this; it needs ${needs}.`, {
    details: { needs },
  });
}
