/**
 * The code and vai-plugin.toml both state the identity, the exports and the schemas. The gateway uses the
 * manifest; `checkManifest` lists where the code differs, so that a test can keep the two consistent.
 */
import { canonicalJson, type Manifest, type PluginExport } from "@backplane/contract";
import type { ExportDefinition, Plugin } from "../define.ts";
import type { JsonSchema } from "../json-schema.ts";

/** The manifest as a TOML parser returns it: defaults may still be missing. */
export type ManifestLike = Pick<Manifest, "package_id" | "version"> & {
  exports: readonly (Pick<PluginExport, "id" | "kind"> & Partial<ExportTables>)[];
};

interface ExportTables {
  config_schema: string;
  tool: { input_schema?: string; output_schema?: string };
  hook: { subscribes_to: readonly string[] };
}

/**
 * Returns one sentence for each difference; an empty list means that code and manifest agree. With
 * `readSchema`, which takes a path inside the package and returns the parsed file, schemas are compared too.
 */
export function checkManifest(
  plugin: Plugin,
  manifest: ManifestLike,
  readSchema?: (path: string) => unknown,
): string[] {
  const problems: string[] = [];
  if (plugin.package_id !== manifest.package_id) {
    problems.push(
      `package_id is ${plugin.package_id} in code and ${manifest.package_id} in vai-plugin.toml.`,
    );
  }
  if (plugin.version !== manifest.version) {
    problems.push(`version is ${plugin.version} in code and ${manifest.version} in vai-plugin.toml.`);
  }
  for (const entry of plugin.exports) {
    const declared = manifest.exports.find(({ id }) => id === entry.id);
    if (declared === undefined)
      problems.push(`${entry.kind} ${entry.id} is in code but not in vai-plugin.toml.`);
    else problems.push(...compareExport(entry, declared, readSchema));
  }
  for (const { id, kind } of manifest.exports) {
    if (!plugin.exports.some((entry) => entry.id === id)) {
      problems.push(`${kind} ${id} is in vai-plugin.toml but not in code.`);
    }
  }
  return problems;
}

function compareExport(
  entry: ExportDefinition,
  declared: ManifestLike["exports"][number],
  readSchema: ((path: string) => unknown) | undefined,
): string[] {
  if (entry.kind !== declared.kind) {
    return [`${entry.id} is a ${entry.kind} in code and a ${declared.kind} in vai-plugin.toml.`];
  }
  const problems: string[] = [];
  const addDifference = (field: string, in_code: JsonSchema | undefined, path: string | undefined) => {
    const difference = compareSchema(in_code, path, readSchema);
    if (difference !== undefined) problems.push(`${entry.id}: ${field} ${difference}`);
  };
  addDifference("config_schema", entry.config, declared.config_schema);
  if (entry.kind === "tool") {
    addDifference("input_schema", entry.input, declared.tool?.input_schema);
    addDifference("output_schema", entry.output, declared.tool?.output_schema);
  }
  if (entry.kind === "hook") {
    const in_code = [...entry.on].sort().join(", ");
    const in_manifest = [...(declared.hook?.subscribes_to ?? [])].sort().join(", ");
    if (in_code !== in_manifest) {
      problems.push(`${entry.id}: subscribes_to is [${in_manifest}] but the code handles [${in_code}].`);
    }
  }
  return problems;
}

/** A schema may exist in the manifest only: the gateway checks it, and the code does not need it. */
function compareSchema(
  in_code: JsonSchema | undefined,
  path: string | undefined,
  readSchema: ((path: string) => unknown) | undefined,
): string | undefined {
  if (in_code === undefined) return undefined;
  if (path === undefined)
    return "is in code, but vai-plugin.toml does not name its file, so the gateway does not check it.";
  if (readSchema === undefined) return undefined;
  const stored = { ...(readSchema(path) as JsonSchema), $schema: undefined, $id: undefined };
  const code_schema = { ...in_code, $schema: undefined, $id: undefined };
  return canonicalJson(stored) === canonicalJson(code_schema)
    ? undefined
    : `differs between code and ${path}.`;
}
