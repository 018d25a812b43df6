/** A running plugin: a local process or a remote server, with the same lifecycle. */
import type { BackplaneError } from "@backplane/contract";
import type { ProcessScratch } from "../artifacts/collect-server-files.ts";
import type { DialectSession } from "../ports/dialect.ts";
import type { ExitStatus } from "../programs/diagnose-launch.ts";
import type { ExitCause } from "../sandbox/exit-cause.ts";
import type { ConfinedProcess } from "../sandbox/launch-confined.ts";
import type { StderrRing } from "./stderr-ring.ts";

export interface PluginInstance {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr: StderrRing;
  readonly state: "launching" | "ready" | "stopping" | "gone";
  readonly exit: ExitStatus | null;
  /** Why the process exited, if it was sandboxed. */
  readonly exitCause: ExitCause | null;
  /** Why the gateway stopped the process; null if it exited on its own. */
  readonly kill_reason: string | null;
  /** The error that ended the session, if any. */
  readonly failure: BackplaneError | null;
  /** Whether the gateway stopped the process before it was ready. The exit then does not count against the plugin. */
  readonly abandoned: boolean;
  readonly session: DialectSession | null;
  /** Undefined before the launch and for a remote server. */
  readonly pid: number | undefined;
  readonly confined: ConfinedProcess | null;
  /** The temporary folder; null without a grant for one, before the launch and for a remote server. */
  readonly scratch: ProcessScratch | null;
  /** Sends SIGKILL immediately. */
  kill(reason: string): void;
  /** Asks the plugin to exit and kills it after the grace period. */
  stop(grace_ms: number, reason: string): void;
  /** Calls `run` once after `ms` of the process's own time, unless the returned function is called first. */
  after(ms: number, run: () => void): () => void;
}
