/**
 * Packages and secrets belong to the org, the bindings that use them to projects: what names its users names
 * only those that the caller may see (bind.scope). The admin credential and callers of the whole org see all.
 */

import { BackplaneError, codeOf, type ErrorCode, type ErrorDetails } from "@backplane/contract";
import type { Caller, KernelDeps } from "@backplane/ports";

export type VisibleBindings = (binding_ids: readonly string[]) => Promise<string[]>;

/** Each binding is looked up once, however many things it uses. */
export function createVisibilityFilter(deps: Pick<KernelDeps, "store">, caller: Caller): VisibleBindings {
  const everything = caller.actor === "admin" || caller.scope.project_id === null;
  const known = new Map<string, boolean>();
  return async (binding_ids) => {
    if (everything) return [...binding_ids];
    const seen: string[] = [];
    for (const id of binding_ids) {
      let visible = known.get(id);
      if (visible === undefined) {
        visible = (await deps.store.bindings.get(caller.scope, id)) !== null;
        known.set(id, visible);
      }
      if (visible) seen.push(id);
    }
    return seen;
  };
}

/** A refusal that lists its users in `details[field]`, for this caller. Everything else passes as it is. */
export async function hideInvisibleBindings(
  thrown: unknown,
  code: ErrorCode,
  field: string,
  visible: VisibleBindings,
): Promise<unknown> {
  if (codeOf(thrown) !== code) return thrown;
  const details = ((thrown as BackplaneError).details ?? {}) as ErrorDetails;
  const users = details[field];
  if (!Array.isArray(users)) return thrown;
  const seen = await visible(users as string[]);
  if (seen.length === users.length) return thrown;
  const more = { details: { ...details, [field]: seen }, cause: thrown };
  if (seen.length > 0) return new BackplaneError(code, (thrown as BackplaneError).message, more);
  const fix = "Ask somebody who acts for the whole org; the bindings are not yours to see.";
  return new BackplaneError(code, "Only bindings of other projects use it.", { ...more, fix });
}
