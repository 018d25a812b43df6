/** The table that maps commands to pages of the console. */
import { readFileSync } from "node:fs";

interface ConsolePage {
  /** `:binding` and similar parts stand for the id of an example. */
  page: string;
  /** The name of a button, field, tab, table or section of the page. */
  control: string;
  /** The options of the command that the page offers. */
  options?: string[];
  /** The options of the command that the page does not offer, and why. */
  without?: Record<string, string>;
}

export interface ConsoleCommands {
  pages: Record<string, ConsolePage>;
  /** Commands without a page, and why. */
  local: Record<string, string>;
}

export function readConsoleCommands(): ConsoleCommands {
  return JSON.parse(readFileSync("spec/console-commands.json", "utf8")) as ConsoleCommands;
}
