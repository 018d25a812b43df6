/** Compares by semantic version precedence; build metadata is ignored. */
export function compareVersions(a: string, b: string): number {
  const left = parseVersion(a);
  const right = parseVersion(b);
  for (let i = 0; i < 3; i++) {
    const step = left.core[i]! - right.core[i]!;
    if (step !== 0) return step;
  }
  if (left.pre === null || right.pre === null) return left.pre === right.pre ? 0 : left.pre === null ? 1 : -1;
  return comparePrerelease(left.pre, right.pre);
}

function parseVersion(version: string): { core: number[]; pre: string[] | null } {
  const bare = version.split("+", 1)[0]!;
  const dash = bare.indexOf("-");
  const core = (dash < 0 ? bare : bare.slice(0, dash)).split(".").map(Number);
  return { core, pre: dash < 0 ? null : bare.slice(dash + 1).split(".") };
}

function comparePrerelease(a: string[], b: string[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const left = a[i];
    const right = b[i];
    if (left === undefined) return -1;
    if (right === undefined) return 1;
    if (left === right) continue;
    const left_is_number = /^\d+$/.test(left);
    const right_is_number = /^\d+$/.test(right);
    if (left_is_number && right_is_number) return Number(left) - Number(right);
    if (left_is_number !== right_is_number) return left_is_number ? -1 : 1;
    return left < right ? -1 : 1;
  }
  return 0;
}
