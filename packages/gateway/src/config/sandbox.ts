/** The sandbox section of the configuration, and the runner options made from it. The sandbox is on by default. */
import { join } from "node:path";
import { definedFields } from "@backplane/contract";
import type { RunnerOptions } from "@backplane/runner";
import { z } from "zod";

const MIB = 1024 * 1024;
const count = (min: number, max: number) => z.int().min(min).max(max).optional();

const LimitsSchema = z.strictObject({
  memory_bytes: count(64 * MIB, 2 ** 40),
  processes: count(16, 32_768),
  cpus: z.number().min(0.05).max(1_024).optional(),
  cpu_seconds: count(1, 86_400),
  open_files: count(64, 1_048_576),
  scratch_bytes: count(MIB, 2 ** 40),
  scratch_files: count(16, 16_777_216),
  kept_bytes: count(MIB, 2 ** 40),
  kept_files: count(16, 16_777_216),
});

export const SandboxSchema = z
  .strictObject({
    enabled: z.boolean().default(true),
    /** Number of prewarmed processes of isolated exports, each waiting for its single call; 0 disables them. */
    prewarmed: z.int().min(0).max(1_000).default(16),
    prewarmed_bytes: z
      .int()
      .min(0)
      .max(2 ** 40)
      .default(512 * MIB),
    /** For a sandboxed process and its children. */
    limits: LimitsSchema.prefault({}),
    /** For individual packages and hosted kernel plugins, instead of the limits above. */
    package_limits: z.record(z.string().min(1).max(200), LimitsSchema).prefault({}),
  })
  .prefault({});

export type SandboxConfig = z.infer<typeof SandboxSchema>;

export function sandboxFolder(home: string): string {
  return join(home, "sandbox");
}

export function toSandboxOptions(config: SandboxConfig, home: string): Pick<RunnerOptions, "sandbox"> {
  if (!config.enabled) return {};
  const package_limits = Object.fromEntries(
    Object.entries(config.package_limits).map(([id, limits]) => [id, definedFields(limits)]),
  );
  return {
    sandbox: { cache_dir: sandboxFolder(home), limits: definedFields(config.limits), package_limits },
  };
}
