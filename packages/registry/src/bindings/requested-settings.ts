/**
 * The settings that a patch results in, and the part of its policy that the caller has chosen. A client may read a
 * binding, change the version and send the rest back. Values that it sends back were chosen for the old version, so
 * they grant the new version no more than the version alone would get. `changes` names single settings, so these are
 * chosen even if the binding already has them.
 */
import {
  type Binding,
  type BindingPatch,
  type BindingPolicy,
  canonicalJson,
  definedFields,
  isObject,
  type JsonObject,
} from "@backplane/contract";

type Settings = Pick<Binding, "config" | "secrets" | "policy">;

export interface RequestedSettings extends Settings {
  /** The fields of the policy that the caller has chosen. */
  set: BindingPolicy;
}

/**
 * `carried` are the settings that the binding keeps if the patch sets none. `all_chosen` means that values of the patch
 * that equal the current ones were chosen as well, because the version stays the same or the patch was written for the
 * new version.
 */
export function resolveSettings(
  before: Settings,
  carried: Settings,
  { config, secrets, policy, changes }: BindingPatch,
  all_chosen: boolean,
): RequestedSettings {
  const resolve = <T extends object>(requested: T | undefined, old: T, kept: T): T => {
    if (requested === undefined) return kept;
    return all_chosen ? requested : (replaceUnchanged(requested, old, kept) as T);
  };
  return {
    config: resolve(config, before.config, carried.config),
    secrets: applyChanges(resolve(secrets, before.secrets, carried.secrets), changes?.secrets),
    policy: applyChanges(resolve(policy, before.policy, carried.policy), changes?.policy),
    set: applyChanges(resolve(policy ?? {}, before.policy, {}), changes?.policy),
  };
}

/**
 * Replaces each requested field that equals the old one with the carried field, or drops it if none is carried. A list
 * is compared as one value.
 */
function replaceUnchanged(requested: object, before: object, carried: object): JsonObject {
  const [old, kept] = [before as JsonObject, carried as JsonObject];
  return Object.fromEntries(
    Object.entries(requested as JsonObject).flatMap(([name, value]) => {
      const [old_value, kept_value] = [old[name], kept[name]];
      if (old_value === undefined) return [[name, value]];
      if (canonicalJson(value) === canonicalJson(old_value))
        return kept_value === undefined ? [] : [[name, kept_value]];
      if (!isObject(value) || !isObject(old_value)) return [[name, value]];
      return [[name, replaceUnchanged(value, old_value, isObject(kept_value) ? kept_value : {})]];
    }),
  );
}

function applyChanges<T extends object>(
  settings: T,
  changes: Readonly<Record<string, unknown>> | undefined,
): T {
  if (changes === undefined) return settings;
  const merged = Object.entries({ ...settings, ...definedFields(changes) });
  return Object.fromEntries(merged.filter(([, value]) => value !== null)) as T;
}
