/** Whether a sandbox is there, asked of the runner at most once a second: calls must not pay for its report. */
import type { KernelDeps } from "@backplane/ports";
import type { Surroundings } from "./rule.ts";

const FRESH_MS = 1_000;

export function sandboxProbe(deps: Pick<KernelDeps, "runner" | "clock">): Surroundings["sandbox"] {
  let known: ReturnType<Surroundings["sandbox"]> | null = null;
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
