/** The result of one check of the sandbox on this machine. If a required check fails, the sandbox is unavailable. */
export interface SandboxCheck {
  name: string;
  ok: boolean;
  message: string;
  fix?: string;
}

export interface SandboxStatus {
  available: boolean;
  /** One sentence: the active boundary, or why there is none. */
  reason: string;
  /** The action that fixes the sandbox; null if nothing is missing or no fix is known. */
  fix: string | null;
  checks: SandboxCheck[];
}

/** Optional checks. If one fails, the boundary is weaker, which the status reports. */
const OPTIONAL = new Set(["cgroups", "users", "trace"]);

export function statusOf(checks: readonly SandboxCheck[]): SandboxStatus {
  const failed = checks.find(({ name, ok }) => !ok && !OPTIONAL.has(name));
  const weak = checks.find(({ ok }) => !ok);
  if (failed !== undefined || checks.length === 0) {
    const fix = failed?.fix ?? null;
    const reason = failed?.message ?? "The sandbox has not been checked.";
    return { available: false, reason, fix, checks: [...checks] };
  }
  const parts = checks.filter(({ name }) => name !== "system").map(({ message }) => message);
  return { available: true, reason: parts.join("; "), fix: weak?.fix ?? null, checks: [...checks] };
}

/**
 * Checks what the kernel reports about a process in the sandbox. Returns the first value that shows that the boundary
 * is not in place, or null.
 */
export function checkProbe(status: string, inside_uid: number): string | null {
  const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(status)?.[1] ?? "absent";
  const expected: [string, (value: string) => boolean][] = [
    ["Uid", (value) => value.split(/\s+/).every((uid) => uid === String(inside_uid))],
    ...["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map((set): [string, (value: string) => boolean] => [
      set,
      (value) => /^0+$/.test(value),
    ]),
    ["NoNewPrivs", (value) => value === "1"],
    ["Seccomp", (value) => value === "2"],
  ];
  for (const [name, holds] of expected) {
    if (!holds(field(name))) return `a test process has ${name} ${field(name)}`;
  }
  return null;
}
