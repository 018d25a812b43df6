/** `--workspace`, for commands that act on a session: session ids are unique only within a workspace. */
import type { Command } from "commander";

export interface WorkspaceOptions {
  workspace?: string;
}

export function addWorkspaceFlag(command: Command): Command {
  return command.option("--workspace <name>", "workspace of the session (default: default)");
}

export function workspaceOf({ workspace }: WorkspaceOptions): WorkspaceOptions {
  return workspace === undefined ? {} : { workspace };
}
