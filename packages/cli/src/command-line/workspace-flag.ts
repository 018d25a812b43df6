/** `--workspace`, for every command that takes a session id: ids are unique within a workspace. */
import type { Command } from "commander";

export interface WorkspaceOptions {
  workspace?: string;
}

export function workspaceFlag(command: Command): Command {
  return command.option("--workspace <name>", "workspace of the session (default: default)");
}

export function workspaceOf({ workspace }: WorkspaceOptions): WorkspaceOptions {
  return workspace === undefined ? {} : { workspace };
}
