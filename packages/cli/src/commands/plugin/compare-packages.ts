/**
 * Lists the changes of an upgrade that matter to the operator: exports, requested permissions, secret slots and
 * configuration.
 */
import { isDescribed, isObject, type Json, type Package } from "@backplane/contract";

type Permissions = NonNullable<Package["manifest"]["runtime"]["permissions"]>;

/** One line for each change; empty if the operator has nothing to decide. */
export function comparePackages(before: Package, after: Package): string[] {
  const [old, next] = [before.manifest, after.manifest];
  const oldExports = new Map(old.exports.map((item) => [item.id, item]));
  const nextExports = new Map(next.exports.map((item) => [item.id, item]));
  const lines = [
    ...listChange("exports", [...oldExports.keys()], [...nextExports.keys()]),
    ...permissionChanges("", old.runtime.permissions, next.runtime.permissions),
  ];
  for (const [id, item] of nextExports) {
    const earlier = oldExports.get(id);
    if (earlier === undefined) continue;
    lines.push(...permissionChanges(`${id}: `, earlier.permissions, item.permissions));
    const schemas = [schemaOf(before, earlier.config_schema), schemaOf(after, item.config_schema)] as const;
    lines.push(...configChanges(`${id}: `, ...schemas));
  }
  if (old.runtime.protocol !== next.runtime.protocol)
    lines.push(`protocol: ${old.runtime.protocol} → ${next.runtime.protocol}`);
  if (isDescribed(next.runtime.protocol))
    lines.push("tools: read when it starts; a tool whose definition changed waits until you accept it");
  return lines;
}

function permissionChanges(of: string, before?: Permissions, after?: Permissions): string[] {
  const lines = (["network", "filesystem"] as const)
    .filter((name) => (before?.[name] ?? "none") !== (after?.[name] ?? "none"))
    .map((name) => `${of}${name}: ${before?.[name] ?? "none"} → ${after?.[name] ?? "none"}`);
  for (const name of ["allowed_domains", "gateway_api_scopes", "secret_slots"] as const)
    lines.push(...listChange(`${of}${name}`, before?.[name] ?? [], after?.[name] ?? []));
  return lines;
}

interface ConfigSchema {
  properties: string[];
  required: string[];
}

function configChanges(of: string, before: ConfigSchema, after: ConfigSchema): string[] {
  const required = after.required.filter((name) => !before.required.includes(name));
  return [
    ...listChange(`${of}config`, before.properties, after.properties),
    ...(required.length === 0 ? [] : [`${of}config now requires ${required.join(", ")}`]),
  ];
}

function schemaOf({ schemas }: Package, file: string | undefined): ConfigSchema {
  const schema: Json | undefined = file === undefined ? undefined : schemas[file];
  if (!isObject(schema)) return { properties: [], required: [] };
  const { properties, required } = schema;
  return {
    properties: isObject(properties) ? Object.keys(properties) : [],
    required: Array.isArray(required) ? required.map(String) : [],
  };
}

function listChange(label: string, before: readonly string[], after: readonly string[]): string[] {
  const added = after.filter((each) => !before.includes(each)).map((each) => `+${each}`);
  const removed = before.filter((each) => !after.includes(each)).map((each) => `-${each}`);
  const changed = [...added, ...removed];
  return changed.length === 0 ? [] : [`${label}: ${changed.join(" ")}`];
}
