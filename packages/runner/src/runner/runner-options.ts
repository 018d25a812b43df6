/** What the room is given from outside. */
import type { ArtifactFiles, Clock, Logger, PackageFiles } from "@backplane/ports";
import type { EgressOptions } from "../egress/create-egress.ts";
import type { InlineGuard, InstrumentServices } from "../inline/inline-provider.ts";
import type { HostPrograms } from "../ports/dialect.ts";
import type { Interpreters, RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import type { Surroundings } from "../programs/diagnose-launch.ts";
import type { SandboxLimits } from "../sandbox/limits.ts";

export interface RunnerOptions {
  files: PackageFiles;
  /** Where files go that answers refer to; absent, such answers are refused. */
  artifacts?: ArtifactFiles;
  clock: Clock;
  /** A folder of the runner's own; leftovers of an earlier run in it are removed. */
  scratch_root: string;
  host: { name: string; version: string };
  timeouts?: Partial<RunnerTimeouts>;
  limits?: Partial<RunnerLimits>;
  interpreters?: Interpreters;
  /** Where a missing interpreter is looked for, only to say that it is there. */
  surroundings?: Surroundings;
  /** Absent: the operator wants none. Isolated exports are refused then, and workers run as plain processes. */
  sandbox?: {
    /** A folder of the sandbox's own; default below `scratch_root`. */
    cache_dir?: string;
    limits?: Partial<SandboxLimits>;
  };
  /** The way out: of the sandbox, for exports that are granted one, and where the gateway dials for a binding. */
  egress?: Omit<EgressOptions, "clock">;
  /** Where the host programs are that some dialects start; what is left out does not run. */
  programs?: HostPrograms;
  /** A folder of the runner's own for data of plugins that outlives their processes. */
  data_root?: string;
  /** The models for instrument plugins in this process; left out, they have none. */
  services?: InstrumentServices;
  /** Around the code of plugins in this process; left out, they connect to what they like. */
  guard?: InlineGuard;
  log: Logger;
}
