/**
 * What differs between a tool as it was accepted and as it describes itself now, for whoever decides on it: text by text,
 * with schemas in place of the paths that name them. Values are shown as the catalog would show them; what is hidden in
 * the new ones is said beside them.
 */
import {
  canonicalJson,
  hiddenIn,
  hiddenText,
  type Json,
  type JsonObject,
  plainJson,
  type ToolChange,
  type ToolWords,
} from "@backplane/contract";

/** Differences of one tool; beyond them it is another tool anyway. */
const MOST = 500;

/** Null for `former`: it is not known any more, so everything is new. */
export function diffTool(former: ToolWords | null, now: ToolWords): ToolChange[] {
  const found: ToolChange[] = [];
  walk(former === null ? {} : wordsOf(former), wordsOf(now), "", found);
  return found.slice(0, MOST);
}

function wordsOf({ export: item, schemas }: ToolWords): JsonObject {
  const { tool, id: _same, ...about } = item;
  const { input_schema, output_schema, ...own } = tool;
  const schemaAt = (path: string | undefined) => (path === undefined ? undefined : schemas[path]);
  const words: Record<string, Json | undefined> = {
    ...(about as JsonObject),
    ...(own as JsonObject),
    input_schema: schemaAt(input_schema),
    output_schema: schemaAt(output_schema),
  };
  return Object.fromEntries(Object.entries(words).filter(([, value]) => value !== undefined)) as JsonObject;
}

function walk(before: Json | undefined, after: Json | undefined, path: string, found: ToolChange[]): void {
  if (found.length >= MOST) return;
  if (isObject(before) && isObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const [old, now] = [before, after].map((at) => (Object.hasOwn(at, key) ? at[key] : undefined));
      walk(old, now, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, found);
    }
    return;
  }
  if (before === undefined && after === undefined) return;
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return;
  found.push({
    path: plainJson(path),
    change: before === undefined ? "added" : after === undefined ? "removed" : "changed",
    ...(before === undefined ? {} : { before: plainJson(before) }),
    ...(after === undefined ? {} : { after: plainJson(after) }),
    hidden: after === undefined ? [] : hiddenIn(after).map(hiddenText),
  });
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
