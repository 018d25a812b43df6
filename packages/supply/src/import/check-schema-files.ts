/** Every schema that the manifest refers to must be in the package and be a valid JSON Schema (pkg.schema-files). */
import { readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { BackplaneError, codeOf, type Json, type Manifest } from "@backplane/contract";
import type { Schemas } from "@backplane/ports";
import type { TreeListing } from "../tree/tree-listing.ts";

/** Four times the limit of a schema without white space (schema-limits.ts). */
const MAX_SCHEMA_FILE_BYTES = 1024 * 1024;

interface SchemaReference {
  /** The path as written in the manifest. */
  path: string;
  where: string;
}

/** Returns the parsed schemas by their path in the manifest. Throws `package.schema`. */
export async function checkSchemaFiles(
  tree: string,
  listing: TreeListing,
  manifest: Manifest,
  schemas: Schemas,
): Promise<Record<string, Json>> {
  const parsed: Record<string, Json> = {};
  for (const reference of schemasOf(manifest)) {
    if (Object.hasOwn(parsed, reference.path)) continue;
    const schema = await readSchema(tree, listing, reference);
    await compileSchema(schemas, `${listing.digest}/${reference.path}`, schema, reference);
    parsed[reference.path] = schema;
  }
  return parsed;
}

function schemasOf(manifest: Manifest): SchemaReference[] {
  return manifest.exports.flatMap((item, index) => {
    const export_path = `exports[${index}]`;
    const references = [{ path: item.config_schema, where: `${export_path}.config_schema` }];
    if (item.kind === "tool") {
      references.push({ path: item.tool.input_schema, where: `${export_path}.tool.input_schema` });
      references.push({ path: item.tool.output_schema, where: `${export_path}.tool.output_schema` });
    }
    return references.flatMap(({ path, where }) => (path === undefined ? [] : [{ path, where }]));
  });
}

async function readSchema(tree: string, listing: TreeListing, reference: SchemaReference): Promise<Json> {
  const path = posix.normalize(reference.path);
  const file = listing.files.find((candidate) => candidate.path === path);
  if (file === undefined) {
    throw schemaFileError(
      reference,
      "the package does not contain this file; add it, or remove the line from the manifest",
    );
  }
  // Checked before reading, because parsing a hundred megabytes of JSON would block the event loop.
  if (file.size > MAX_SCHEMA_FILE_BYTES) {
    throw schemaFileError(reference, `it is larger than ${MAX_SCHEMA_FILE_BYTES / 1024} KiB`);
  }
  const text = (await readFile(join(tree, path), "utf8")).replace(/^\ufeff/, "");
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw schemaFileError(
      reference,
      `it is not valid JSON: ${(error as Error).message.split("\n")[0]?.slice(0, 160)}`,
      error,
    );
  }
}

async function compileSchema(
  schemas: Schemas,
  key: string,
  schema: Json,
  reference: SchemaReference,
): Promise<void> {
  try {
    await schemas.compile(key, schema);
  } catch (error) {
    if (codeOf(error) !== "package.schema") throw error;
    const reason = (error as BackplaneError).details?.why;
    throw schemaFileError(reference, typeof reason === "string" ? reason : (error as Error).message, error);
  }
}

function schemaFileError({ path, where }: SchemaReference, reason: string, cause?: unknown): BackplaneError {
  return new BackplaneError("package.schema", `${path} (${where}): ${reason}.`, {
    details: { file: path, field: where, why: reason },
    ...(cause === undefined ? {} : { cause }),
  });
}
