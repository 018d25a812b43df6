/** Sorts plugins: each is loaded after those that it requires, otherwise in the given order. */

export interface DependencyNode {
  name: string;
  requires: readonly string[];
}

export interface DependencyOrder {
  /** The plugins in order, without those in a cycle. */
  names: string[];
  /** Keyed by plugin name: the cycle that the plugin is part of, as `a → b → a`. */
  cycles: Map<string, string>;
}

export function sortByDependencies(nodes: readonly DependencyNode[]): DependencyOrder {
  const nodes_by_name = new Map(nodes.map((node) => [node.name, node]));
  const done = new Set<string>();
  const path: string[] = [];
  const cycles = new Map<string, string>();
  const names: string[] = [];

  function visit(name: string): void {
    const node = nodes_by_name.get(name);
    // A missing dependency is reported when the plugin is loaded.
    if (node === undefined || done.has(name)) return;
    const start = path.indexOf(name);
    if (start >= 0) {
      const cycle = path.slice(start);
      for (const [index, member] of cycle.entries()) {
        cycles.set(member, [...cycle.slice(index), ...cycle.slice(0, index), member].join(" → "));
      }
      return;
    }
    path.push(name);
    for (const dependency of node.requires) visit(dependency);
    path.pop();
    done.add(name);
    names.push(name);
  }

  for (const { name } of nodes) visit(name);
  return { names: names.filter((name) => !cycles.has(name)), cycles };
}
