/**
 * A body may state the scope that it is meant for, as the binding record of VAI does: `scope: {org_id, project_id}`. It
 * must be the scope of the credential, or a project of the credential's whole organisation; it never widens a request.
 */
import { BackplaneError, isObject } from "@backplane/contract";
import type { Caller, Scope } from "@backplane/ports";
import type { z } from "zod";

export interface ScopedBody {
  /** The body of the request without its scope. */
  body: unknown;
  /** The scope of the request, if it is narrower than that of the credential. */
  scope: Scope | null;
}

/** `schema` is that of the route; a schema that has its own field `scope` keeps it. */
export function takeBodyScope(caller: Caller | null, schema: z.ZodType, body: unknown): ScopedBody {
  if (caller === null || !isObject(body) || !isObject(body.scope) || hasOwnScope(schema))
    return { body, scope: null };
  const { scope: stated, ...rest } = body;
  const { org_id = caller.scope.org_id, project_id = caller.scope.project_id, ...other } = stated;
  const named = Object.keys(other);
  if (named.length > 0) {
    const message = `body.scope: ${named[0]} is not a field of a scope; use org_id and project_id`;
    throw new BackplaneError("request.invalid", message);
  }
  if (org_id !== caller.scope.org_id) throw otherScope("organisation", org_id, caller.scope.org_id);
  if (project_id === caller.scope.project_id) return { body: rest, scope: null };
  if (caller.scope.project_id !== null || typeof project_id !== "string" || project_id === "")
    throw otherScope("project", project_id, caller.scope.project_id);
  return { body: rest, scope: { org_id: caller.scope.org_id, project_id } };
}

function hasOwnScope(schema: z.ZodType): boolean {
  return !("shape" in schema) || Object.hasOwn(schema.shape as object, "scope");
}

function otherScope(noun: string, stated: unknown, own: string | null): BackplaneError {
  const message = `body.scope names the ${noun} ${JSON.stringify(stated)}, but the credential is for ${own ?? "the whole organisation"}.`;
  return new BackplaneError("auth.scope", message, {
    fix: `Leave scope out, or use a credential for that ${noun}.`,
  });
}
