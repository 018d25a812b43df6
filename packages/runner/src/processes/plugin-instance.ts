/** What calls are made to: a process of ours, or a server elsewhere. One life each, told the same way. */
import type { BackplaneError } from "@backplane/contract";
import type { Session } from "../ports/dialect.ts";
import type { ExitStatus } from "../programs/diagnose-launch.ts";
import type { Death } from "../sandbox/cause-of-death.ts";
import type { Confined } from "../sandbox/launch-confined.ts";
import type { StderrRing } from "./stderr-ring.ts";

export interface Counterpart {
  readonly ready: Promise<void>;
  readonly gone: Promise<void>;
  readonly stderr: StderrRing;
  readonly state: "launching" | "ready" | "stopping" | "gone";
  readonly exit: ExitStatus | null;
  /** What ended it, when it was confined and is gone. */
  readonly death: Death | null;
  /** Why we ended it; null when it ended by itself. */
  readonly killReason: string | null;
  /** What ended the conversation, if something did. */
  readonly failure: BackplaneError | null;
  /** It was stopped by us before it was ready: its end says nothing about the plugin. */
  readonly givenUp: boolean;
  readonly session: Session | null;
  /** Undefined: there is no process, or none yet. */
  readonly pid: number | undefined;
  readonly confined: Confined | null;
  /** At once. */
  kill(reason: string): void;
  /** Asks it to end and ends it when it does not. */
  stop(grace_ms: number, reason: string): void;
  /** Runs once after `ms` of its own time, unless the returned function is called before. */
  after(ms: number, run: () => void): () => void;
}
