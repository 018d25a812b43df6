/** The trial at start: what the sandbox claims is what the kernel says of a process in it. */
import type { Grant } from "@backplane/contract";
import type { Clock } from "@backplane/ports";
import { createEgress } from "../egress/create-egress.ts";
import { type Confined, launchConfined } from "./launch-confined.ts";
import { missing, type SandboxParts } from "./make-sandbox.ts";
import { INSIDE, INSIDE_UID } from "./plan.ts";
import { readProbe, type SandboxCheck } from "./status.ts";

const TRIAL_MS = 20_000;

const CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};

/** A name that cannot exist: for its sake the ports 80 and 443 are opened inside, which needs most of all. */
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

/** One process through everything a plugin will go through, and the kernel's own word on it. */
export async function tryOut(made: SandboxParts, checks: SandboxCheck[]): Promise<void> {
  const trial = await launchConfined(made, {
    grant: GRANT,
    way_out: createEgress({ clock: CLOCK }).open({ grant: GRANT }),
    lifetime: "call",
    folder: "/usr/bin",
    program: { kind: "system", file: INSIDE.init, args: ["probe"] },
    env: {},
  });
  const late = setTimeout(() => trial.kill(), TRIAL_MS);
  const [said] = await Promise.all([textOf(trial), trial.death]);
  clearTimeout(late);
  const wrong = readProbe(said, INSIDE_UID);
  if (wrong !== null) throw missing(wrong, "Report this with the output of `backplane doctor`.");
  checks.push({
    name: "trial",
    ok: true,
    message:
      "own user, mount, pid, network, ipc and uts namespaces, a way out, no capabilities, system-call filter",
  });
}

async function textOf({ child }: Confined): Promise<string> {
  let text = "";
  child.stderr.resume();
  for await (const chunk of child.stdout) text += String(chunk);
  return text;
}
