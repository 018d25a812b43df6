/** Describes in sentences what a version can do that the one in use cannot, and what else changes for the operator. */

import type { MarketplaceEntry, Package, PluginExport } from "../schema/index.ts";
import { canonicalJson, isObject, type Json } from "../values/json.ts";
import { compareRisk, RISK_OF_EFFECT } from "../vocabulary/risk.ts";
import { FILESYSTEM_ACCESS, isSelfDescribing } from "../vocabulary/vocabulary.ts";
import { compareProvenance } from "./describe-provenance.ts";
import { findPackageSource } from "./package-source.ts";
import { neutralChange, type PackageChange, riskierChange } from "./package-change.ts";

type Permissions = NonNullable<Package["manifest"]["runtime"]["permissions"]>;

const NO_PERMISSIONS: Permissions = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
};

/** Empty if nothing changes for the operator, unless the package describes itself: its tools are then not known yet. */
export function comparePackages(before: Package, after: Package): PackageChange[] {
  const [old, next] = [before.manifest, after.manifest];
  const old_exports = new Map(old.exports.map((item) => [item.id, item]));
  const next_exports = new Map(next.exports.map((item) => [item.id, item]));
  const changes = [
    ...compareExports([...old_exports.keys()], [...next_exports.keys()]),
    ...comparePermissions("It", old.runtime.permissions, next.runtime.permissions),
    ...compareProvenance(before, after),
    ...compareOrigins(before, after),
  ];
  for (const [id, item] of next_exports) {
    const earlier = old_exports.get(id);
    changes.push(...comparePermissions(id, earlier?.permissions, item.permissions));
    if (earlier === undefined) continue;
    changes.push(...compareDefinitions(before, earlier, after, item));
    const schemas = [
      readSchema(before, earlier.config_schema),
      readSchema(after, item.config_schema),
    ] as const;
    changes.push(...compareConfig(id, ...schemas));
  }
  if (old.runtime.protocol !== next.runtime.protocol)
    changes.push(
      neutralChange(`It uses the protocol ${next.runtime.protocol} instead of ${old.runtime.protocol}.`),
    );
  if (isSelfDescribing(next.runtime.protocol))
    changes.push(
      neutralChange(
        "Its tools are read when it starts. Their definitions at the first start are accepted with the upgrade; a tool that changes later is hidden until you accept it.",
      ),
    );
  return changes;
}

/**
 * Compares the package in use with a marketplace entry that is not installed. An entry has one set of permissions for
 * all exports, so it is compared with all permissions of the package.
 */
export function compareWithEntry(before: Package, entry: MarketplaceEntry): PackageChange[] {
  const { exports, runtime } = before.manifest;
  const key_id = entry.signature?.key_id ?? null;
  const old_key = before.signature?.key_id ?? null;
  const source = findPackageSource(before);
  const entry_source =
    entry.oci === null
      ? null
      : findPackageSource({ ...before, oci: { reference: entry.oci, manifest_digest: "" } });
  const requested = [runtime, ...exports].flatMap(({ permissions }) => permissions ?? []);
  return [
    ...compareExports(
      exports.map(({ id }) => id),
      entry.package.exports.map(({ id }) => id),
    ),
    ...comparePermissions("It", mergePermissions(requested), entry.permissions),
    ...(old_key === null || key_id === null || old_key === key_id
      ? []
      : [neutralChange(`It is signed with ${key_id} instead of ${before.signature?.key_name ?? old_key}.`)]),
    ...(entry_source === null || entry_source === source
      ? []
      : [
          riskierChange(
            `It comes from ${entry_source} instead of ${source ?? `local files from ${before.installed_by}`}.`,
          ),
        ]),
  ];
}

function mergePermissions(all: readonly Permissions[]): Permissions {
  const connecting = all.filter(({ network }) => network !== "none");
  const domains = connecting.flatMap(({ allowed_domains }) => allowed_domains ?? []);
  const is_open = connecting.some(({ allowed_domains }) => allowed_domains === undefined);
  const rank = ({ filesystem }: Permissions) => FILESYSTEM_ACCESS.indexOf(filesystem);
  return {
    network: connecting[0]?.network ?? "none",
    filesystem: FILESYSTEM_ACCESS[Math.max(0, ...all.map(rank))]!,
    gateway_api_scopes: [...new Set(all.flatMap(({ gateway_api_scopes }) => gateway_api_scopes))],
    secret_slots: [...new Set(all.flatMap(({ secret_slots }) => secret_slots))],
    ...(connecting.length === 0 || is_open ? {} : { allowed_domains: [...new Set(domains)] }),
  };
}

function compareExports(before: readonly string[], after: readonly string[]): PackageChange[] {
  const { added, removed } = diff(before, after);
  return [
    ...(added === "" ? [] : [neutralChange(`It adds ${added}.`)]),
    ...(removed === "" ? [] : [neutralChange(`It no longer has ${removed}.`)]),
  ];
}

/** Changes of the signature and of the source. */
function compareOrigins(before: Package, after: Package): PackageChange[] {
  const changes: PackageChange[] = [];
  const [old, next] = [before.signature, after.signature];
  const was_signed = old !== undefined && old.key_id !== null;
  if (was_signed && next?.state !== "verified")
    changes.push(
      riskierChange(
        `It has no valid signature of a trusted key; ${before.version} was signed with ${old.key_name}.`,
      ),
    );
  else if (was_signed && old.key_id !== next?.key_id)
    changes.push(neutralChange(`It is signed with ${next?.key_name} instead of ${old.key_name}.`));
  const [old_source, next_source] = [before, after].map(
    (pack) => findPackageSource(pack) ?? `local files from ${pack.installed_by}`,
  );
  if (findPackageSource(before) !== findPackageSource(after))
    changes.push(riskierChange(`It comes from ${next_source} instead of ${old_source}.`));
  return changes;
}

function comparePermissions(who: string, old = NO_PERMISSIONS, next = NO_PERMISSIONS): PackageChange[] {
  const changes: PackageChange[] = [];
  const domains = diff(old.allowed_domains ?? [], next.allowed_domains ?? []);
  if (old.network !== next.network) {
    const where = domains.added === "" ? "" : `: ${domains.added}`;
    changes.push(
      next.network === "egress"
        ? riskierChange(`${who} will be able to use the network${where}.`)
        : neutralChange(`${who} will no longer use the network.`),
    );
  } else if (
    old.network === "egress" &&
    old.allowed_domains === undefined &&
    next.allowed_domains !== undefined
  )
    changes.push(neutralChange(`${who} will only reach ${next.allowed_domains.join(", ")}.`));
  else {
    if (domains.added !== "") changes.push(riskierChange(`${who} will be able to reach ${domains.added}.`));
    if (old.allowed_domains !== undefined && next.allowed_domains === undefined && next.network === "egress")
      changes.push(riskierChange(`${who} will be able to reach every domain that the gateway allows.`));
    else if (domains.removed !== "")
      changes.push(neutralChange(`${who} will no longer reach ${domains.removed}.`));
  }
  if (old.filesystem !== next.filesystem)
    changes.push({
      text: `${who} will have the file access ${next.filesystem} instead of ${old.filesystem}.`,
      riskier: FILESYSTEM_ACCESS.indexOf(next.filesystem) > FILESYSTEM_ACCESS.indexOf(old.filesystem),
    });
  const scopes = diff(old.gateway_api_scopes, next.gateway_api_scopes);
  if (scopes.added !== "")
    changes.push(riskierChange(`${who} will be able to call the gateway with ${scopes.added}.`));
  if (scopes.removed !== "")
    changes.push(neutralChange(`${who} will no longer call the gateway with ${scopes.removed}.`));
  const slots = diff(old.secret_slots, next.secret_slots);
  if (slots.added !== "") changes.push(riskierChange(`${who} will need the secret ${slots.added}.`));
  if (slots.removed !== "")
    changes.push(neutralChange(`${who} will no longer get the secret ${slots.removed}.`));
  return changes;
}

/** Changes to the parts of a tool that callers and models see. */
function compareDefinitions(
  before: Package,
  old: PluginExport,
  after: Package,
  next: PluginExport,
): PackageChange[] {
  if (old.kind !== "tool" || next.kind !== "tool") return [];
  const { id } = next;
  const changes: PackageChange[] = [];
  const [effect, old_effect] = [next.tool.effect_class, old.tool.effect_class];
  if (old_effect !== effect)
    changes.push({
      text: `${id} has the effect class ${effect} instead of ${old_effect}.`,
      riskier: compareRisk(RISK_OF_EFFECT[effect], RISK_OF_EFFECT[old_effect]) > 0,
    });
  if (old.tool.requires_approval !== next.tool.requires_approval)
    changes.push(
      next.tool.requires_approval
        ? neutralChange(`${id} will need approval for every call.`)
        : riskierChange(`${id} will no longer need approval for every call.`),
    );
  if (old.description !== next.description) changes.push(neutralChange(`The description of ${id} changes.`));
  const differs = (name: "input_schema" | "output_schema") =>
    readSchemaText(before, old.tool[name]) !== readSchemaText(after, next.tool[name]);
  if (differs("input_schema")) changes.push(neutralChange(`The arguments of ${id} change.`));
  if (differs("output_schema")) changes.push(neutralChange(`The result of ${id} changes.`));
  return changes;
}

interface ConfigSchema {
  properties: string[];
  required: string[];
}

function compareConfig(id: string, before: ConfigSchema, after: ConfigSchema): PackageChange[] {
  const { added, removed } = diff(before.properties, after.properties);
  const required = diff(before.required, after.required).added;
  return [
    ...(added === "" ? [] : [`${id} has the new setting ${added}.`]),
    ...(removed === "" ? [] : [`${id} no longer has the setting ${removed}.`]),
    ...(required === "" ? [] : [`${id} requires the setting ${required}.`]),
  ].map(neutralChange);
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
    added: after.filter((name) => !before.includes(name)).join(", "),
    removed: before.filter((name) => !after.includes(name)).join(", "),
  };
}
