/** Between commander and a command: flags become a Context, what the handler returns becomes the exit code. */
import type { Command } from "commander";
import type { Io } from "../terminal/io.ts";
import { type Context, createContext, type GlobalFlags } from "./context.ts";

/** A handler gets the context first, then the command's own flags, then its arguments. undefined means success. */
export type Act = <Options extends object, Args extends unknown[]>(
  handler: (context: Context, options: Options, ...args: Args) => Promise<number | undefined>,
) => (...all: unknown[]) => Promise<void>;

export function createAct(io: Io, settle: (exit: number) => void): Act {
  return <Options extends object, Args extends unknown[]>(
    handler: (context: Context, options: Options, ...args: Args) => Promise<number | undefined>,
  ) =>
    async (...all: unknown[]) => {
      // commander calls with the arguments, then the flags, then the command itself.
      const command = all.at(-1) as Command;
      const context = createContext(io, command.optsWithGlobals<GlobalFlags>());
      const exit = await handler(context, command.opts<Options>(), ...(all.slice(0, -2) as Args));
      if (exit !== undefined) settle(exit);
    };
}
