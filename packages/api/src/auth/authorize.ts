import { BackplaneError } from "@backplane/contract";
import { type Caller, requireScope } from "@backplane/ports";
import type { RouteAuth } from "../http/route.ts";

/** Throws auth.scope when the caller may not use a route at all. The kernel decides which rows the caller may see. */
export function authorize(caller: Caller, auth: Exclude<RouteAuth, "public">): void {
  if ("host" in auth) {
    if (caller.actor !== "admin") throw missingScope("admin token");
    return;
  }
  const delegation = caller.delegation;
  if (delegation !== undefined) {
    // A delegated token may use only routes with a delegation scope, whatever its caller's scopes are.
    const needs = "scope" in auth ? auth.delegated : undefined;
    if (needs === undefined || (needs !== "any" && !delegation.scopes.includes(needs)))
      throw missingScope(needs ?? "a credential that is not delegated");
    return;
  }
  if (!("any" in auth)) requireScope(caller, auth.scope);
}

function missingScope(needs: string): BackplaneError {
  return new BackplaneError("auth.scope", `The credential may not use this route. Required: ${needs}.`, {
    details: { needs },
  });
}
