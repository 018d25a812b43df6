/**
 * Checks an instance's fields against the schema of its plugin before they are written. Required fields may
 * be missing, because instances are created first and completed later; the plugin's health check can report them. An
 * empty string selects the default of a field. Messages never contain a value, because it may be a secret.
 */

import { BackplaneError, canonicalJson, isObject, type JsonObject } from "@backplane/contract";
import type { SchemaIssue, Schemas } from "@backplane/ports";
import { ALLOW_PRIVATE_FIELD } from "@backplane/registry";

/** Fields that the kernel reads from every instance, whether or not the plugin declares them. */
const KERNEL_FIELDS: JsonObject = {
  context_window: { type: "integer", minimum: 1 },
  model_name: { type: "string" },
  [ALLOW_PRIVATE_FIELD]: { type: "string" },
};

/** Only issues with `changed` fields are reported, so that older invalid values do not block other changes. */
export async function checkConfig(
  schemas: Schemas | undefined,
  plugin: { name: string; config_schema: JsonObject | null },
  config: JsonObject,
  changed: readonly string[],
): Promise<void> {
  if (schemas === undefined) return;
  const values = Object.fromEntries(
    Object.entries(config).filter(([, value]) => value !== null && value !== ""),
  );
  const { known, closed, schema } = readSchema(plugin.config_schema);
  const unknown = closed ? changed.filter((field) => field in values && !known.includes(field)) : [];
  const issues = unknown.map((field): SchemaIssue & { field: string } => ({
    field,
    path: `config.${field}`,
    message: `${plugin.name} has no such field; it has ${known.join(", ")}`,
  }));
  if (issues.length === 0) {
    const check = await schemas.compile(`provider ${plugin.name} ${canonicalJson(schema)}`, schema);
    for (const { path, message } of await check(values)) {
      const field = path.split("/")[1] ?? "";
      if (changed.includes(field))
        issues.push({ field, path: `config${path.replaceAll("/", ".")}`, message });
    }
  }
  const [first] = issues;
  if (first === undefined) return;
  throw new BackplaneError("provider.invalid", `${first.path}: ${first.message}`, {
    fix: `Correct ${first.field}. \`backplane provider list --json\` shows the fields of ${plugin.name} in config_schema.`,
    details: { issues: issues.map(({ path, message }) => ({ path, message })) },
  });
}

interface InstanceSchema {
  known: string[];
  /** True when the schema allows no additional fields. */
  closed: boolean;
  schema: JsonObject;
}

function readSchema(config_schema: JsonObject | null): InstanceSchema {
  const { required: _later, additionalProperties, properties, ...rest } = config_schema ?? {};
  const declared = isObject(properties) ? properties : {};
  const closed = additionalProperties === false && rest.patternProperties === undefined;
  const schema: JsonObject = { type: "object", ...rest, properties: { ...KERNEL_FIELDS, ...declared } };
  if (additionalProperties !== undefined && !closed) schema.additionalProperties = additionalProperties;
  return { known: [...Object.keys(declared), ...Object.keys(KERNEL_FIELDS)], closed, schema };
}
