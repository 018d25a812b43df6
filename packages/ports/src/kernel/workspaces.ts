/** Trusted folders of the gateway's machine with tool files. */
import type {
  WorkspaceActivity,
  WorkspaceFolder,
  WorkspaceReview,
  WorkspaceTrust,
} from "@backplane/contract";
import type { Operation } from "../host/operation.ts";
import type { Caller } from "../scope/scope.ts";

export interface WorkspacesFacade {
  /** Lists the files that would be trusted and marks new ones. */
  review(caller: Caller, path: string, kind: WorkspaceFolder["kind"]): Promise<WorkspaceReview>;
  /** Trusts the folder and loads its tools; on a trusted folder, accepts the changes made since. */
  trust(caller: Caller, request: WorkspaceTrust, operation?: Operation): Promise<WorkspaceFolder>;
  list(caller: Caller): Promise<WorkspaceFolder[]>;
  /**
   * Yields what is loaded, then each load of the folder and the frames of its processes, until `stop`. Throws
   * `workspace.not_found`.
   */
  streamActivity(caller: Caller, id: string, stop: AbortSignal): AsyncIterable<WorkspaceActivity>;
  /** Removes the tools immediately; the files are not touched. */
  untrust(caller: Caller, id: string): Promise<void>;
}
