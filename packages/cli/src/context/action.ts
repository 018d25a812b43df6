/** Adapts command handlers to commander: creates the context from the flags and sets the exit code. */
import type { Command } from "commander";
import type { Io } from "../terminal/io.ts";
import { type CommandContext, createContext, type GlobalFlags } from "./context.ts";

/** A handler receives the context, the command's own flags and its arguments. undefined means success. */
export type ToAction = <Options extends object, Args extends unknown[]>(
  handler: (context: CommandContext, options: Options, ...args: Args) => Promise<number | undefined>,
) => (...all: unknown[]) => Promise<void>;

export function createToAction(io: Io, setExitCode: (exit: number) => void): ToAction {
  return <Options extends object, Args extends unknown[]>(
    handler: (context: CommandContext, options: Options, ...args: Args) => Promise<number | undefined>,
  ) =>
    async (...all: unknown[]) => {
      // commander passes the arguments, then the flags, then the command.
      const command = all.at(-1) as Command;
      const context = createContext(io, command.optsWithGlobals<GlobalFlags>());
      const exit = await handler(context, command.opts<Options>(), ...(all.slice(0, -2) as Args));
      if (exit !== undefined) setExitCode(exit);
    };
}
