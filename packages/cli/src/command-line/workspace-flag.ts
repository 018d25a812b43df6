/** A session is named by its id in a workspace; the same flag for every command that names one. */
import type { Command } from "commander";

export interface Where {
  workspace?: string;
}

export function inWorkspace(command: Command): Command {
  return command.option("--workspace <name>", "the workspace, default `default`");
}

export function whereOf({ workspace }: Where): Where {
  return workspace === undefined ? {} : { workspace };
}
