/** The state of the sandbox, read from the runner at most once a second, because every call needs it. */
import type { KernelDeps } from "@backplane/ports";
import type { AdmissionState } from "./rules.ts";

const FRESH_MS = 1_000;

export function createSandboxProbe(deps: Pick<KernelDeps, "runner" | "clock">): AdmissionState["sandbox"] {
  let known: ReturnType<AdmissionState["sandbox"]> | null = null;
  let until = 0;
  return () => {
    const now = deps.clock.monotonic();
    if (known === null || now >= until) {
      known = deps.runner.health().sandbox;
      until = now + FRESH_MS;
    }
    return known;
  };
}
