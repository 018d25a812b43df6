/** The state of the sandbox, read from the runner at most once a second, because every call needs it. */
import type { KernelDeps } from "@backplane/ports";
import type { AdmissionState } from "./rules.ts";

const FRESH_MS = 1_000;

export function createSandboxProbe(deps: Pick<KernelDeps, "runner" | "clock">): AdmissionState["sandbox"] {
  let cached: ReturnType<AdmissionState["sandbox"]> | null = null;
  let expires_at = 0;
  return () => {
    const now = deps.clock.monotonic();
    if (cached === null || now >= expires_at) {
      cached = deps.runner.health().sandbox;
      expires_at = now + FRESH_MS;
    }
    return cached;
  };
}
