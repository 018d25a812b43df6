/**
 * Which binding a call means: by its id, or by the name of an export, which means what the catalog means by it. Whatever
 * the caller may not see does not exist here.
 */

import { BackplaneError, type InvokeBody, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { BoundPackage, Scope } from "@backplane/ports";
import { type BindingSource, bindsWholePackage, pickBinding, selectExport } from "@backplane/registry";
import { ofHolder } from "../tools/precedence.ts";
import { usable } from "../tools/usable.ts";
import type { InvokeRequest } from "./open.ts";

export interface ResolveDeps {
  bindings: BindingSource;
}

/**
 * A grant names tools as the catalog means them: a plugin's token reaches no other package under such a name. A turn
 * has what its snapshot says.
 */
export function resolveFor(
  door: ResolveDeps,
  request: InvokeRequest,
  rollout_key: string,
): MaybePromise<BoundPackage> {
  const { body, caller, turn } = request;
  const found = resolve(door, caller.scope, body, rollout_key);
  const named = body.binding_id !== undefined || body.package_id !== undefined;
  if (caller.delegation === undefined || turn !== undefined || !named) return found;
  return mapMaybe(found, (bound) => asMeant(door, caller.scope, bound));
}

async function asMeant(door: ResolveDeps, scope: Scope, bound: BoundPackage): Promise<BoundPackage> {
  const { export_id, kind } = bound.binding;
  if (kind !== "tool") return bound;
  const visible = await door.bindings.candidates(scope, export_id);
  const [holder] = ofHolder(usable(scope.project_id === null ? visible.filter(isOrgWide) : visible, scope));
  if (holder === undefined || holder.package.package_id === bound.package.package_id) return bound;
  throw new BackplaneError("export.not_found", `${holder.package.package_id} has the name ${export_id} here`);
}

function resolve(
  { bindings }: ResolveDeps,
  scope: Scope,
  body: InvokeBody,
  rollout_key: string,
): MaybePromise<BoundPackage> {
  const { binding_id, export_id, package_id } = body;
  if (binding_id !== undefined)
    return mapMaybe(bindings.get(scope, binding_id), (found) => byId(found, body));
  if (export_id === undefined) {
    throw new BackplaneError("request.invalid", "name a binding_id or an export_id");
  }
  return mapMaybe(bindings.candidates(scope, export_id, package_id), (visible) => {
    const candidates = scope.project_id === null ? visible.filter(isOrgWide) : visible;
    // A plain name of a tool means what the catalog means by it.
    const meant = package_id === undefined ? ofHolder(usable(candidates, scope)) : candidates;
    const picked = pickBinding(meant, rollout_key);
    if (picked === null) throw notUsable(export_id, candidates);
    return picked;
  });
}

function byId(bound: BoundPackage | null, body: InvokeBody): BoundPackage {
  if (bound === null || !names(bound, body)) throw new BackplaneError("binding.not_found");
  return bindsWholePackage(bound) ? toolOf(bound, body.export_id) : bound;
}

/**
 * A caller of the whole org sees every project's bindings and may name one; by the export's name alone it gets
 * the org's, never the config and secrets of some project.
 */
function isOrgWide({ binding }: BoundPackage): boolean {
  return binding.scope.project_id === null;
}

function toolOf(bound: BoundPackage, export_id: string | undefined): BoundPackage {
  const { binding_id, package_id } = bound.binding;
  if (export_id === undefined) {
    throw new BackplaneError(
      "request.invalid",
      `${binding_id} binds all tools of ${package_id}; send export_id too`,
    );
  }
  const one = selectExport(bound, export_id);
  if (one === null) throw new BackplaneError("export.not_found", `${package_id} offers no ${export_id} here`);
  return one;
}

/** A request that names binding and export has to mean the same thing by both. */
function names(bound: BoundPackage, body: InvokeBody): boolean {
  return (
    (bindsWholePackage(bound) ||
      body.export_id === undefined ||
      body.export_id === bound.binding.export_id) &&
    (body.package_id === undefined || body.package_id === bound.binding.package_id)
  );
}

function notUsable(export_id: string, candidates: readonly BoundPackage[]): BackplaneError {
  const waiting = candidates.find(({ binding }) => binding.status === "inactive")?.binding;
  if (waiting !== undefined && candidates.every(({ binding }) => binding.status !== "active")) {
    return new BackplaneError(
      "export.not_found",
      `${export_id} is bound by ${waiting.binding_id}, which waits for the secret slots ${waiting.unbound_slots.join(", ")}`,
      { details: { binding_id: waiting.binding_id, unbound: waiting.unbound_slots } },
    );
  }
  const [off] = candidates;
  if (off !== undefined && candidates.every(({ binding }) => binding.status === "disabled")) {
    const { binding_id } = off.binding;
    return new BackplaneError(
      "export.not_found",
      `${export_id} is bound by ${binding_id}, which is disabled`,
      {
        fix: `backplane binding enable ${binding_id}`,
      },
    );
  }
  const what =
    candidates.length === 0 ? "no binding makes it usable here" : "no active binding takes this call";
  return new BackplaneError("export.not_found", `${export_id}: ${what}`);
}
