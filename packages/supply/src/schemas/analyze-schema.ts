/**
 * Estimates the cost of a schema. `weight` is the maximum number of checks for one value, with every reference
 * expanded; weight × values bounds an evaluation. A recursive schema has no such bound (two references in an anyOf
 * double the work at each level), so it never runs on the gateway's own thread. This module runs in the worker, so it
 * imports no other module.
 */
export interface SchemaShape {
  weight: number;
  recursive: boolean;
  /** Whether items are compared with one another, which takes values × values checks. */
  quadratic: boolean;
  formats: boolean;
  /** Every pattern, with the number of times it can be tested against one string. */
  patterns: Map<string, number>;
  /** Property names, for the expensive inputs with which vet-schema.ts tries the schema. */
  names: Set<string>;
}

const WEIGHT_CAP = 1_000_000;
const ONE_SCHEMA = [
  "not",
  "if",
  "then",
  "else",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
];
const ONE_SCHEMA_OR_LIST = ["items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"];
const SCHEMA_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const SCHEMA_TABLES = ["properties", "patternProperties", "dependentSchemas", "dependencies"];
const SINGLE_SCHEMA = [...ONE_SCHEMA, ...ONE_SCHEMA_OR_LIST];

interface Cost {
  weight: number;
  patterns: Map<string, number>;
}

export function analyzeSchema(root: unknown): SchemaShape {
  const shape: SchemaShape = {
    weight: 0,
    recursive: false,
    quadratic: false,
    formats: false,
    patterns: new Map(),
    names: new Set(),
  };
  const costs = new Map<object, Cost>();
  const in_progress = new Set<object>();

  const costOf = (schema: unknown): Cost => {
    const cost: Cost = { weight: 1, patterns: new Map() };
    if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return cost;
    const known = costs.get(schema);
    if (known !== undefined) return known;
    if (in_progress.has(schema)) {
      shape.recursive = true;
      return cost;
    }
    in_progress.add(schema);
    const node = schema as Record<string, unknown>;
    inspectNode(node, root, shape, cost);
    for (const inner of listSubschemas(node)) addCost(cost, costOf(inner));
    for (const target of findReferencedSchemas(node, root, shape)) addCost(cost, costOf(target));
    in_progress.delete(schema);
    costs.set(schema, cost);
    return cost;
  };

  const { weight, patterns } = costOf(root);
  // Unused definitions cost nothing, but they must not refer to other documents either.
  for (const inner of listDefinitions(root)) costOf(inner);
  return { ...shape, weight, patterns };
}

function inspectNode(node: Record<string, unknown>, root: unknown, shape: SchemaShape, cost: Cost): void {
  if (node.uniqueItems === true) shape.quadratic = true;
  if (typeof node.format === "string") shape.formats = true;
  if (typeof node.pattern === "string") countPattern(cost.patterns, node.pattern, 1);
  // A nested $id changes the base of the references below it. These are not followed, so the schema is not trusted.
  if (node !== root && typeof node.$id === "string") shape.recursive = true;
  for (const list of [node.enum, node.required]) if (Array.isArray(list)) cost.weight += list.length;
  for (const table of [node.dependentRequired, node.dependencies]) {
    // Each missing name is an issue, and each issue contains the whole list.
    for (const list of Object.values(Object(table) as object)) {
      if (Array.isArray(list)) cost.weight = Math.min(WEIGHT_CAP, cost.weight + list.length ** 2);
    }
  }
  if (node.const !== undefined || node.enum !== undefined) {
    cost.weight += Math.ceil(JSON.stringify(node.const ?? node.enum).length / 16);
  }
  for (const table of [node.properties, node.patternProperties]) {
    if (typeof table === "object" && table !== null) cost.weight += Object.keys(table).length;
  }
  if (typeof node.properties === "object" && node.properties !== null) {
    for (const name of Object.keys(node.properties)) if (shape.names.size < 64) shape.names.add(name);
  }
  if (typeof node.patternProperties === "object" && node.patternProperties !== null) {
    for (const pattern of Object.keys(node.patternProperties)) countPattern(cost.patterns, pattern, 1);
  }
}

function listSubschemas(node: Record<string, unknown>): unknown[] {
  const subschemas: unknown[] = [];
  for (const key of SINGLE_SCHEMA)
    if (Object.hasOwn(node, key) && !Array.isArray(node[key])) subschemas.push(node[key]);
  for (const key of SCHEMA_LISTS) if (Array.isArray(node[key])) subschemas.push(...(node[key] as unknown[]));
  for (const key of SCHEMA_TABLES) {
    const table = node[key];
    if (typeof table === "object" && table !== null) subschemas.push(...Object.values(table));
  }
  return subschemas;
}

function listDefinitions(root: unknown): unknown[] {
  const { $defs = {}, definitions: old = {} } = Object(root) as { $defs?: object; definitions?: object };
  return [...Object.values(Object($defs)), ...Object.values(Object(old))];
}

function findReferencedSchemas(node: Record<string, unknown>, root: unknown, shape: SchemaShape): unknown[] {
  const targets: unknown[] = [];
  for (const key of ["$ref", "$dynamicRef"]) {
    const ref = node[key];
    if (typeof ref !== "string") continue;
    const target = resolve(ref, root);
    if (key === "$dynamicRef" || target === undefined) shape.recursive = true;
    if (target !== undefined) targets.push(target);
  }
  return targets;
}

/** Resolves references within the document. References to other documents are refused, because nothing is fetched. */
function resolve(ref: string, root: unknown): unknown {
  const { $id = "" } = Object(root) as { $id?: unknown };
  const root_id = typeof $id === "string" ? $id.replace(/#.*$/, "") : "";
  const hash = ref.indexOf("#");
  const document = hash === -1 ? ref : ref.slice(0, hash);
  if (document !== "" && document !== root_id && !hasId(root, document)) {
    throw new Error(
      `$ref ${JSON.stringify(ref.slice(0, 200))} points outside the schema; copy that part into $defs`,
    );
  }
  if (document !== "" && document !== root_id) return undefined;
  const fragment = hash === -1 ? "" : ref.slice(hash + 1);
  if (fragment === "") return root;
  if (!fragment.startsWith("/")) return undefined;
  return follow(root, fragment);
}

function follow(root: unknown, pointer: string): unknown {
  let value = root;
  for (const raw of pointer.slice(1).split("/")) {
    let part = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    try {
      part = decodeURIComponent(part);
    } catch {
      return undefined;
    }
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}

function hasId(value: unknown, id: string): boolean {
  if (typeof value !== "object" || value === null) return false;
  const own_id = (value as { $id?: unknown }).$id;
  if (typeof own_id === "string" && (own_id === id || own_id.endsWith(`/${id}`))) return true;
  return Object.values(value).some((inner) => hasId(inner, id));
}

function addCost(cost: Cost, inner: Cost): void {
  cost.weight = Math.min(WEIGHT_CAP, cost.weight + inner.weight);
  for (const [pattern, times] of inner.patterns) countPattern(cost.patterns, pattern, times);
}

function countPattern(patterns: Map<string, number>, pattern: string, times: number): void {
  patterns.set(pattern, Math.min(WEIGHT_CAP, (patterns.get(pattern) ?? 0) + times));
}
