/** Options of the runner. */
import type { ArtifactFiles, Clock, Logger, PackageFiles } from "@backplane/ports";
import type { EgressOptions } from "../egress/create-egress.ts";
import type { InlineGuard, InstrumentServices } from "../inline/inline-provider.ts";
import type { HostPrograms } from "../ports/dialect.ts";
import type { Interpreters, RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import type { HostPaths } from "../programs/diagnose-launch.ts";
import type { PackageLimits, SandboxLimits } from "../sandbox/limits.ts";

export interface RunnerOptions {
  files: PackageFiles;
  /** Stores files that answers refer to. Without this option such answers are refused. */
  artifacts?: ArtifactFiles;
  clock: Clock;
  /** A folder for the runner alone. Scratch folders of an earlier runner in it are removed. */
  scratch_root: string;
  host: { name: string; version: string };
  timeouts?: Partial<RunnerTimeouts>;
  limits?: Partial<RunnerLimits>;
  interpreters?: Interpreters;
  /**
   * The home of the gateway's user, which is also the home of tools on the host, and the gateway's PATH. Plugins cannot
   * use programs there; errors about a missing program mention them.
   */
  host_paths?: HostPaths;
  /**
   * Absent if the operator disabled the sandbox. Isolated exports are then refused, and workers run as
   * plain processes.
   */
  sandbox?: {
    /** A folder for the sandbox alone; by default below `scratch_root`. */
    cache_dir?: string;
    limits?: Partial<SandboxLimits>;
    package_limits?: PackageLimits;
  };
  /** Rules for egress from the sandbox and for connections that the gateway makes for a binding. */
  egress?: Omit<EgressOptions, "clock">;
  /** Paths of the host programs of some dialects. A dialect without its program does not run. */
  programs?: HostPrograms;
  /** A folder for the persistent data of plugins. */
  data_root?: string;
  /** Models for instrument plugins inside the gateway. Without this option they have none. */
  services?: InstrumentServices;
  /** Checks connections of plugins inside the gateway. Without this option they are not restricted. */
  guard?: InlineGuard;
  log: Logger;
}
