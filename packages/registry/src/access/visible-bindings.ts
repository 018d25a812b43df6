/**
 * Bindings of several projects can use the same package or the same secret of the org. A response lists only the
 * bindings that the caller may see (bind.scope). The admin token and callers of the whole org see all bindings.
 */

import { BackplaneError, codeOf, type ErrorCode, type ErrorDetails } from "@backplane/contract";
import type { Caller, KernelDeps } from "@backplane/ports";

export type VisibilityFilter = (binding_ids: readonly string[]) => Promise<string[]>;

/** Returns a filter for binding ids. The filter looks up each binding once, even if several resources list it. */
export function createVisibilityFilter(deps: Pick<KernelDeps, "store">, caller: Caller): VisibilityFilter {
  const sees_all = caller.actor === "admin" || caller.scope.project_id === null;
  const cache = new Map<string, boolean>();
  return async (binding_ids) => {
    if (sees_all) return [...binding_ids];
    const visible_ids: string[] = [];
    for (const id of binding_ids) {
      let visible = cache.get(id);
      if (visible === undefined) {
        visible = (await deps.store.bindings.get(caller.scope, id)) !== null;
        cache.set(id, visible);
      }
      if (visible) visible_ids.push(id);
    }
    return visible_ids;
  };
}

/**
 * Reduces the bindings that an error of this code lists in `details[field]` to those that the caller may see.
 * Returns every other error unchanged.
 */
export async function hideInvisibleBindings(
  thrown: unknown,
  code: ErrorCode,
  field: string,
  filterVisible: VisibilityFilter,
): Promise<unknown> {
  if (codeOf(thrown) !== code) return thrown;
  const details = ((thrown as BackplaneError).details ?? {}) as ErrorDetails;
  const binding_ids = details[field];
  if (!Array.isArray(binding_ids)) return thrown;
  const visible_ids = await filterVisible(binding_ids as string[]);
  if (visible_ids.length === binding_ids.length) return thrown;
  const options = { details: { ...details, [field]: visible_ids }, cause: thrown };
  if (visible_ids.length > 0) return new BackplaneError(code, (thrown as BackplaneError).message, options);
  const fix =
    "You do not have access to these bindings. Ask somebody with a credential of the whole organization.";
  return new BackplaneError(code, "This resource is used by bindings of other projects.", {
    ...options,
    fix,
  });
}
