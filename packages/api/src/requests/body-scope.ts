/**
 * A body may state the scope that it is meant for: `scope: {org_id, project_id}`. It must be the scope of the credential
 * or, if the credential is for the whole organization, any project of that organization. `project_id: null`, the scope
 * of a row for all projects, is the same as `org_wide: true` and needs the same right.
 */
import { BackplaneError, isObject } from "@backplane/contract";
import { type Caller, HOST_ADMIN, isWholeOrg, type Scope } from "@backplane/ports";
import { z } from "zod";

/** How the OpenAPI document describes the field. */
export const BodyScopeSchema = z
  .strictObject({
    org_id: z.string().optional().describe("The organization of the credential."),
    project_id: z
      .string()
      .nullable()
      .optional()
      .describe(
        "The project of the credential, or any project for a key of the whole organization. null means all projects: " +
          "where the body has `org_wide` it is the same as `org_wide: true`, elsewhere only a key of the whole " +
          "organization may send it. If left out, the request keeps the project of the credential.",
      ),
  })
  .describe(
    "The scope that a request is meant for. A body without it means the scope of the credential: the project of a key, or " +
      "the project that the admin token selects with Backplane-Project (default proj_default). A scope that the credential " +
      "does not have is refused with auth.scope.",
  );

export interface ScopedBody {
  /** The body of the request without its scope. */
  body: unknown;
  /** The scope of the request, if it is narrower than that of the credential. */
  scope: Scope | null;
}

/** A schema that has its own field `scope` keeps it. */
export function acceptsBodyScope(schema: z.ZodType): boolean {
  return "shape" in schema && !hasField(schema, "scope");
}

/** `schema` is the body schema of the route. */
export function extractBodyScope(caller: Caller | null, schema: z.ZodType, body: unknown): ScopedBody {
  if (caller === null || !isObject(body) || !isObject(body.scope) || !acceptsBodyScope(schema))
    return { body, scope: null };
  const { scope: stated, ...rest } = body;
  const { org_id = caller.scope.org_id, project_id = caller.scope.project_id, ...further_fields } = stated;
  const unknown_fields = Object.keys(further_fields);
  if (unknown_fields.length > 0) {
    const message = `body.scope: ${unknown_fields[0]} is not a field of a scope; use org_id and project_id`;
    throw new BackplaneError("request.invalid", message);
  }
  if (org_id !== caller.scope.org_id) throw scopeMismatch(caller, "organization", org_id);
  checkOrgWide(stated.project_id, rest.org_wide);
  if (project_id === caller.scope.project_id) return { body: rest, scope: null };
  if (project_id === null && hasField(schema, "org_wide") && isWholeOrg(caller))
    return { body: { ...rest, org_wide: true }, scope: null };
  if (caller.scope.project_id !== null || typeof project_id !== "string" || project_id === "")
    throw scopeMismatch(caller, "project", project_id);
  return { body: rest, scope: { org_id: caller.scope.org_id, project_id } };
}

/** Refuses a body that states two different scopes. */
function checkOrgWide(project_id: unknown, org_wide: unknown): void {
  const contradicts =
    project_id === null ? org_wide === false : project_id !== undefined && org_wide === true;
  if (!contradicts) return;
  const stated_target = project_id === null ? "all projects" : `the project ${JSON.stringify(project_id)}`;
  const message = `body.scope names ${stated_target}, but body.org_wide is ${String(org_wide)}; leave one of them out`;
  throw new BackplaneError("request.invalid", message);
}

function hasField(schema: z.ZodType, name: string): boolean {
  return "shape" in schema && Object.hasOwn(schema.shape as object, name);
}

function scopeMismatch(caller: Caller, noun: "organization" | "project", stated: unknown): BackplaneError {
  const credential_value = noun === "organization" ? caller.scope.org_id : caller.scope.project_id;
  const stated_target = stated === null ? "all projects" : `the ${noun} ${JSON.stringify(stated)}`;
  const message = `body.scope names ${stated_target}, but the credential is for ${credential_value ?? "the whole organization"}.`;
  return new BackplaneError("auth.scope", message, { fix: fixFor(caller, noun, stated) });
}

function fixFor({ actor, delegation }: Caller, noun: "organization" | "project", stated: unknown): string {
  if (noun === "project" && stated === null)
    return "Leave scope out, or specify a project of the credential.";
  if (actor !== HOST_ADMIN || delegation !== undefined)
    return `Leave scope out, or use a credential for that ${noun}.`;
  const header = noun === "project" ? "Backplane-Project" : "Backplane-Org";
  return `Leave scope out, or specify the ${noun} in the header ${header}.`;
}
