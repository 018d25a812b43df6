/** Describes in sentences what a version can do that the one in use cannot, and what else changes for the operator. */

import type { Package, PluginExport } from "../schema/index.ts";
import { canonicalJson, isObject, type Json } from "../values/json.ts";
import { isSelfDescribing } from "../vocabulary/vocabulary.ts";
import { compareProvenance } from "./describe-provenance.ts";

type Permissions = NonNullable<Package["manifest"]["runtime"]["permissions"]>;

const NO_PERMISSIONS: Permissions = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
};

/** One sentence for each change; empty if nothing changes for the operator. */
export function comparePackages(before: Package, after: Package): string[] {
  const [old, next] = [before.manifest, after.manifest];
  const oldExports = new Map(old.exports.map((item) => [item.id, item]));
  const nextExports = new Map(next.exports.map((item) => [item.id, item]));
  const { added, removed } = diff([...oldExports.keys()], [...nextExports.keys()]);
  const lines = [
    ...(added === "" ? [] : [`It adds ${added}.`]),
    ...(removed === "" ? [] : [`It no longer has ${removed}.`]),
    ...permissionChanges("It", old.runtime.permissions, next.runtime.permissions),
    ...compareProvenance(before, after),
  ];
  for (const [id, item] of nextExports) {
    const earlier = oldExports.get(id);
    if (earlier === undefined) continue;
    lines.push(...permissionChanges(id, earlier.permissions, item.permissions));
    lines.push(...definitionChanges(before, earlier, after, item));
    const schemas = [
      readSchema(before, earlier.config_schema),
      readSchema(after, item.config_schema),
    ] as const;
    lines.push(...configChanges(id, ...schemas));
  }
  if (old.runtime.protocol !== next.runtime.protocol)
    lines.push(`It uses the protocol ${next.runtime.protocol} instead of ${old.runtime.protocol}.`);
  if (isSelfDescribing(next.runtime.protocol))
    lines.push(
      "Its tools are read when it starts; a tool whose definition has changed is hidden until you accept it.",
    );
  return lines;
}

function permissionChanges(who: string, old = NO_PERMISSIONS, next = NO_PERMISSIONS): string[] {
  const lines: string[] = [];
  const domains = diff(old.allowed_domains ?? [], next.allowed_domains ?? []);
  if (old.network !== next.network) {
    const where = domains.added === "" ? "" : `: ${domains.added}`;
    lines.push(
      next.network === "egress"
        ? `${who} will be able to use the network${where}.`
        : `${who} will no longer use the network.`,
    );
  } else {
    if (domains.added !== "") lines.push(`${who} will be able to reach ${domains.added}.`);
    if (domains.removed !== "") lines.push(`${who} will no longer reach ${domains.removed}.`);
  }
  if (old.filesystem !== next.filesystem)
    lines.push(`${who} will have the file access ${next.filesystem} instead of ${old.filesystem}.`);
  const scopes = diff(old.gateway_api_scopes, next.gateway_api_scopes);
  if (scopes.added !== "") lines.push(`${who} will be able to call the gateway with ${scopes.added}.`);
  if (scopes.removed !== "") lines.push(`${who} will no longer call the gateway with ${scopes.removed}.`);
  const slots = diff(old.secret_slots, next.secret_slots);
  if (slots.added !== "") lines.push(`${who} will need the secret ${slots.added}.`);
  if (slots.removed !== "") lines.push(`${who} will no longer get the secret ${slots.removed}.`);
  return lines;
}

/** Changes to the parts of a tool that callers and models see. */
function definitionChanges(before: Package, old: PluginExport, after: Package, next: PluginExport): string[] {
  if (old.kind !== "tool" || next.kind !== "tool") return [];
  const { id } = next;
  const lines: string[] = [];
  if (old.tool.effect_class !== next.tool.effect_class)
    lines.push(`${id} has the effect class ${next.tool.effect_class} instead of ${old.tool.effect_class}.`);
  if (old.tool.requires_approval !== next.tool.requires_approval)
    lines.push(
      next.tool.requires_approval
        ? `${id} will ask for approval of every call.`
        : `${id} will no longer ask for approval of every call.`,
    );
  if (old.description !== next.description) lines.push(`The description of ${id} changes.`);
  const changes = (name: "input_schema" | "output_schema") =>
    readSchemaText(before, old.tool[name]) !== readSchemaText(after, next.tool[name]);
  if (changes("input_schema")) lines.push(`The arguments of ${id} change.`);
  if (changes("output_schema")) lines.push(`The result of ${id} changes.`);
  return lines;
}

interface ConfigSchema {
  properties: string[];
  required: string[];
}

function configChanges(id: string, before: ConfigSchema, after: ConfigSchema): string[] {
  const { added, removed } = diff(before.properties, after.properties);
  const required = diff(before.required, after.required).added;
  return [
    ...(added === "" ? [] : [`${id} has the new setting ${added}.`]),
    ...(removed === "" ? [] : [`${id} no longer has the setting ${removed}.`]),
    ...(required === "" ? [] : [`${id} requires the setting ${required}.`]),
  ];
}

function readSchema({ schemas }: Package, file: string | undefined): ConfigSchema {
  const schema: Json | undefined = file === undefined ? undefined : schemas[file];
  if (!isObject(schema)) return { properties: [], required: [] };
  const { properties, required } = schema;
  return {
    properties: isObject(properties) ? Object.keys(properties) : [],
    required: Array.isArray(required) ? required.map(String) : [],
  };
}

function readSchemaText({ schemas }: Package, file: string | undefined): string {
  const schema = file === undefined ? undefined : schemas[file];
  return schema === undefined ? "" : canonicalJson(schema);
}

function diff(before: readonly string[], after: readonly string[]): { added: string; removed: string } {
  return {
    added: after.filter((each) => !before.includes(each)).join(", "),
    removed: before.filter((each) => !after.includes(each)).join(", "),
  };
}
