/** What the sandbox of this machine is made of, and what it lacks. Anything missing that matters means: no sandbox. */
export interface SandboxCheck {
  name: string;
  ok: boolean;
  message: string;
  fix?: string;
}

export interface SandboxStatus {
  available: boolean;
  /** One sentence: the boundary in force, or why there is none. */
  reason: string;
  /** What to do about it; null when nothing is to be done. */
  fix: string | null;
  checks: SandboxCheck[];
}

/** Checks named here may fail; the boundary is weaker then, and says so. */
const OPTIONAL = new Set(["cgroups", "users"]);

export function statusOf(checks: readonly SandboxCheck[]): SandboxStatus {
  const missing = checks.find(({ name, ok }) => !ok && !OPTIONAL.has(name));
  const weak = checks.find(({ ok }) => !ok);
  if (missing !== undefined || checks.length === 0) {
    const fix = missing?.fix ?? null;
    const reason = missing?.message ?? "The sandbox has not been looked at.";
    return { available: false, reason, fix, checks: [...checks] };
  }
  const parts = checks.filter(({ name }) => name !== "system").map(({ message }) => message);
  return { available: true, reason: parts.join("; "), fix: weak?.fix ?? null, checks: [...checks] };
}

/** What the kernel must say of a process in there; a trial that says anything else is no boundary. */
export function readProbe(status: string, inside_uid: number): string | null {
  const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(status)?.[1] ?? "absent";
  const expected: [string, (value: string) => boolean][] = [
    ["Uid", (value) => value.split(/\s+/).every((uid) => uid === String(inside_uid))],
    ["CapEff", (value) => /^0+$/.test(value)],
    ["CapPrm", (value) => /^0+$/.test(value)],
    ["CapBnd", (value) => /^0+$/.test(value)],
    ["NoNewPrivs", (value) => value === "1"],
    ["Seccomp", (value) => value === "2"],
  ];
  for (const [name, holds] of expected) {
    if (!holds(field(name))) return `a trial process has ${name} ${field(name)}`;
  }
  return null;
}
