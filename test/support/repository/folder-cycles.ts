/**
 * Folders of one module that import each other in a cycle. Every folder with source files is a node, including nested
 * folders, and every import is an edge, whether of a value or of a type.
 */
import { dirname, relative, resolve, sep } from "node:path";
import { importsOf, modulesUnder, readSources } from "./import-table.ts";

/** Each cycle as its folders in order, joined by commas. */
export function findFolderCycles(root: string): string[] {
  const cycles: string[] = [];
  for (const { folder } of modulesUnder(root)) {
    const edges = new Map<string, Set<string>>();
    for (const { file, text } of readSources(root, folder)) {
      const from = dirname(file);
      const targets = edges.get(from) ?? new Set();
      edges.set(from, targets);
      for (const specifier of importsOf(text)) {
        if (!specifier.startsWith(".")) continue;
        const to = dirname(resolve(from, specifier));
        if (to !== from) targets.add(to);
      }
    }
    for (const cycle of stronglyConnected(edges)) {
      const names = cycle.map((path) => relative(resolve(root), path).replaceAll(sep, "/"));
      cycles.push(names.sort().join(", "));
    }
  }
  return cycles.sort();
}

/** The groups of two or more nodes that all reach each other (Tarjan's algorithm). */
function stronglyConnected(edges: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const groups: string[][] = [];
  const visit = (node: string): void => {
    const node_index = index.size;
    index.set(node, node_index);
    low.set(node, node_index);
    stack.push(node);
    for (const next of edges.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node)!, low.get(next)!));
    }
    if (low.get(node) !== node_index) return;
    const group = stack.splice(stack.indexOf(node));
    if (group.length > 1) groups.push(group);
  };
  for (const node of edges.keys()) if (!index.has(node)) visit(node);
  return groups;
}
