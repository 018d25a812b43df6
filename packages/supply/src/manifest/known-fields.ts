/** The fields that the manifest schema defines at a path, for suggestions. They are read from the schema itself. */
import { ManifestSchema } from "@backplane/contract/schema";
import type { TomlPath } from "./toml-lines.ts";

interface SchemaNode {
  def: {
    type: string;
    shape?: Record<string, SchemaNode>;
    innerType?: SchemaNode;
    element?: SchemaNode;
    valueType?: SchemaNode;
    options?: SchemaNode[];
    discriminator?: string;
    values?: unknown[];
  };
}

/** The fields of the table at `path`; an empty record where the schema allows any key. */
export function fieldsAt(path: TomlPath, manifest: unknown): Record<string, SchemaNode> {
  let node: SchemaNode | undefined = ManifestSchema as unknown as SchemaNode;
  let value = manifest;
  for (const part of [...path, undefined]) {
    node = node === undefined ? undefined : resolveNode(node, value);
    if (part === undefined) break;
    node = typeof part === "number" ? node?.def.element : (node?.def.shape?.[part] ?? node?.def.valueType);
    value = (value as Record<string | number, unknown> | undefined)?.[part];
  }
  return node?.def.shape ?? {};
}

/** The table among these fields that defines `key`: `effect_class` belongs to `tool`. */
export function tableDefining(key: string, fields: Record<string, SchemaNode>): string | undefined {
  return Object.keys(fields).find((name) => {
    const shape = resolveNode(fields[name] as SchemaNode, {})?.def.shape;
    return shape !== undefined && Object.hasOwn(shape, key);
  });
}

/** The known name that is most similar to `word`; undefined when none is similar. */
export function mostSimilar(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let best_distance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

/** Unwraps optional fields and selects the option of a union that `value` names. */
function resolveNode(start: SchemaNode, value: unknown): SchemaNode | undefined {
  let node: SchemaNode | undefined = start;
  while (node?.def.innerType !== undefined) node = node.def.innerType;
  if (node?.def.type !== "union") return node;
  const { discriminator = "", options = [] } = node.def;
  const selected = (value as Record<string, unknown> | undefined)?.[discriminator];
  return options.find((option) => option.def.shape?.[discriminator]?.def.values?.[0] === selected);
}

function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const replaced = (row[j - 1] as number) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[right.length] as number;
}
