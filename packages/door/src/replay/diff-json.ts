/** Structural comparison of two JSON results. */
import { isArtifact, isObject, type Json, type JsonObject, type ReplayDifference } from "@backplane/contract";

const MAX_DIFFERENCES = 20;
const MAX_VALUE_CHARS = 200;

/** The differences between two results, at most 20. An empty list means that they are equal. */
export function diffJson(current: Json, candidate: Json): ReplayDifference[] {
  const differences: ReplayDifference[] = [];
  collectDifferences("", current, candidate, differences);
  return differences;
}

/** The types of a result without its values, to compare results that differ from call to call. */
export function shapeOf(value: Json): Json {
  if (Array.isArray(value)) {
    // The number of items of the same shape does not matter.
    const shapes = new Map(value.map((item) => [JSON.stringify(shapeOf(item)), shapeOf(item)]));
    return [...shapes.keys()].sort().map((key) => shapes.get(key)!);
  }
  if (!isObject(value)) return value === null ? null : typeof value;
  // The type of a content block is part of its shape.
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, key === "type" ? item : shapeOf(item as Json)]),
  ) as JsonObject;
}

function collectDifferences(
  path: string,
  current: Json,
  candidate: Json,
  differences: ReplayDifference[],
): void {
  if (differences.length >= MAX_DIFFERENCES || current === candidate) return;
  if (Array.isArray(current) && Array.isArray(candidate)) {
    for (let i = 0; i < Math.max(current.length, candidate.length); i++)
      collectItemDifferences(`${path}/${i}`, current[i], candidate[i], differences);
    return;
  }
  if (isObject(current) && isObject(candidate)) {
    const [left, right] = [toComparable(current as JsonObject), toComparable(candidate as JsonObject)];
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)]))
      collectItemDifferences(
        `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
        left[key],
        right[key],
        differences,
      );
    return;
  }
  differences.push({ path, change: "changed", current: shorten(current), candidate: shorten(candidate) });
}

function collectItemDifferences(
  path: string,
  current: Json | undefined,
  candidate: Json | undefined,
  differences: ReplayDifference[],
): void {
  if (differences.length >= MAX_DIFFERENCES) return;
  if (current === undefined && candidate === undefined) return;
  if (current === undefined) differences.push({ path, change: "added", candidate: shorten(candidate!) });
  else if (candidate === undefined) differences.push({ path, change: "removed", current: shorten(current) });
  else collectDifferences(path, current, candidate, differences);
}

/** A file is compared by its content. Its name and the call that produced it are always different. */
function toComparable(value: JsonObject): JsonObject {
  if (!isArtifact(value)) return value;
  const { path: _path, invocation_id: _id, ...content } = value as JsonObject;
  return content;
}

function shorten(value: Json): Json {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE_CHARS ? value : `${text.slice(0, MAX_VALUE_CHARS - 1)}…`;
}
