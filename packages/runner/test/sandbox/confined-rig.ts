/** The runner's rig with the sandbox switched on, over the same fixture programs. */
import { makeRig, type Rig } from "../rig.ts";
import type { RunnerOptions } from "../../src/index.ts";
import { CACHE } from "./open-test-sandbox.ts";

export function confinedRig(
  options: Partial<RunnerOptions> & { folder?: string; sandbox?: RunnerOptions["sandbox"] } = {},
): Rig {
  return makeRig({ ...options, sandbox: { cache_dir: CACHE, ...options.sandbox } });
}
