/** Folders of the gateway's machine whose tool files the operator trusts. */
import type { WorkspaceFolder, WorkspaceReview, WorkspaceTrust } from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

export interface WorkspacesFacade {
  /** What would be trusted, and what of it is new. */
  review(caller: Caller, path: string, kind: WorkspaceFolder["kind"]): Promise<WorkspaceReview>;
  /** Loads the folder's tools; again: what changed since. */
  trust(caller: Caller, wanted: WorkspaceTrust): Promise<WorkspaceFolder>;
  list(caller: Caller): Promise<WorkspaceFolder[]>;
  /** Its tools are gone at once; its files stay where they are. */
  untrust(caller: Caller, id: string): Promise<void>;
}
