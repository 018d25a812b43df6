/** A plan with mounts of each kind, a link, a hidden folder, scratch and a variable, but without listeners. */
import type { SandboxPlan } from "../../src/sandbox/plan.ts";

export const PLAN: SandboxPlan = {
  uid: 59_007,
  mounts: [
    { source: "/usr", target: "/usr", writable: false, system: true },
    { source: "/root/store/abc", target: "/plugin", writable: false, system: false },
    { source: "/srv/data", target: "/srv/data", writable: true, system: false },
  ],
  links: [{ path: "/bin", target: "usr/bin" }],
  hidden: ["/plugin/assets"],
  scratch: { target: "/sandbox/scratch", bytes: 1024, files: 16 },
  kept: [],
  listeners: [],
  env: { SECRET: "of the plugin" },
  cwd: "/plugin",
  command: ["/usr/bin/python3", "main.py"],
  limits: [],
};
