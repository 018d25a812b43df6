/**
 * Lists the differences between a tool as it was accepted and as it describes itself now, for the operator who
 * decides on them. The content of schemas is compared, not their paths. Values are sanitized as in the catalog; hidden
 * text in the new values is reported separately.
 */
import {
  canonicalJson,
  type DescribedTool,
  describeHiddenCharacters,
  findHiddenCharacters,
  isObject,
  type Json,
  type JsonObject,
  sanitizeJson,
  type ToolChange,
} from "@backplane/contract";

/** A tool with more differences than this is a different tool, so the rest is not listed. */
const MAX_CHANGES = 500;

/** If `former` is null, the accepted version is unknown, so every field is reported as added. */
export function diffTool(former: DescribedTool | null, now: DescribedTool): ToolChange[] {
  const changes: ToolChange[] = [];
  collectChanges(former === null ? {} : fieldsOf(former), fieldsOf(now), "", changes);
  return changes.slice(0, MAX_CHANGES);
}

function fieldsOf({ export: item, schemas }: DescribedTool): JsonObject {
  const { tool, id: _same, ...export_fields } = item;
  const { input_schema, output_schema, ...tool_fields } = tool;
  const schemaAt = (path: string | undefined) => (path === undefined ? undefined : schemas[path]);
  const fields: Record<string, Json | undefined> = {
    ...(export_fields as JsonObject),
    ...(tool_fields as JsonObject),
    input_schema: schemaAt(input_schema),
    output_schema: schemaAt(output_schema),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject;
}

function collectChanges(
  before: Json | undefined,
  after: Json | undefined,
  path: string,
  changes: ToolChange[],
): void {
  if (changes.length >= MAX_CHANGES) return;
  if (isObject(before) && isObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const [old, now] = [before, after].map((fields) =>
        Object.hasOwn(fields, key) ? fields[key] : undefined,
      );
      collectChanges(old, now, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, changes);
    }
    return;
  }
  if (before === undefined && after === undefined) return;
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return;
  changes.push({
    path: sanitizeJson(path),
    change: before === undefined ? "added" : after === undefined ? "removed" : "changed",
    ...(before === undefined ? {} : { before: sanitizeJson(before) }),
    ...(after === undefined ? {} : { after: sanitizeJson(after) }),
    hidden: after === undefined ? [] : findHiddenCharacters(after).map(describeHiddenCharacters),
  });
}
