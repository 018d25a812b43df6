/** The runner's rig with the sandbox switched on, over the same fixture programs. */

import type { RunnerOptions } from "../../src/index.ts";
import { makeRig, type Rig } from "./runner.ts";
import { CACHE } from "./sandbox.ts";

export function confinedRig(
  options: Partial<RunnerOptions> & { folder?: string; sandbox?: RunnerOptions["sandbox"] } = {},
): Rig {
  return makeRig({ ...options, sandbox: { cache_dir: CACHE, ...options.sandbox } });
}
