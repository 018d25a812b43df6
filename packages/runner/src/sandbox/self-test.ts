/** The self-test at start: checks the claims of the sandbox against what the kernel reports about a process in it. */
import { getSystemErrorName } from "node:util";
import type { Grant } from "@backplane/contract";
import type { Clock } from "@backplane/ports";
import { createEgress } from "../egress/create-egress.ts";
import { discardOutput } from "../programs/keep-output.ts";
import { type ConfinedProcess, launchConfined } from "./launch-confined.ts";
import { INSIDE, INSIDE_UID } from "./plan.ts";
import { type SandboxParts, sandboxError } from "./sandbox-parts.ts";
import { checkProbe, type SandboxCheck } from "./status.ts";

const TEST_MS = 20_000;

const CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};

/** Allows a name that cannot exist, so that sandbox-init opens ports 80 and 443, which needs the most privileges. */
const GRANT: Grant = {
  class: "isolated",
  network: "egress",
  allowed_domains: ["backplane.invalid"],
  filesystem: "scratch",
  mounts: [],
  gateway_api_scopes: [],
  secret_slots: [],
  capabilities: [],
  tools: null,
};

/** Launches one process in the same way as a plugin and reads its status from the kernel. */
export async function runSelfTest(parts: SandboxParts, checks: SandboxCheck[]): Promise<void> {
  const probe = await launchConfined(parts, {
    grant: GRANT,
    egress: createEgress({ clock: CLOCK }).open({ grant: GRANT }),
    lifetime: "call",
    folder: "/usr/bin",
    program: { kind: "system", file: INSIDE.init, args: ["probe"] },
    binds: [{ source: parts.tools.init, target: INSIDE.init, writable: false }],
    env: {},
  });
  const timer = setTimeout(() => probe.kill(), TEST_MS);
  const [status] = await Promise.all([readOutput(probe), probe.exitCause]);
  clearTimeout(timer);
  const problem = checkProbe(status, INSIDE_UID);
  if (problem !== null) throw sandboxError(problem, "Report this with the output of `backplane doctor`.");
  const { untraced } = probe;
  checks.push({
    name: "trace",
    ok: untraced === null,
    message:
      untraced === null
        ? "connections refused inside the sandbox are recorded"
        : `connections refused inside the sandbox are not recorded (${getSystemErrorName(-untraced)})`,
    ...(untraced === null ? {} : { fix: "Give the gateway the capability CAP_NET_RAW." }),
  });
  checks.push({
    name: "self-test",
    ok: true,
    message:
      "own user, mount, pid, network, ipc and uts namespaces, egress, no capabilities, system-call filter",
  });
}

async function readOutput({ child }: ConfinedProcess): Promise<string> {
  let text = "";
  discardOutput(child.stderr);
  for await (const chunk of child.stdout) text += String(chunk);
  return text;
}
