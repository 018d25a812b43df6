/** Adapts command handlers to commander: creates the context from the flags and sets the exit code. */
import { BackplaneError, codeOf, type ErrorDetails } from "@backplane/contract";
import type { Command } from "commander";
import type { Io } from "../terminal/io.ts";
import { type CommandContext, createContext, type GlobalFlags } from "./context.ts";
import { tokenSource } from "./locate-gateway.ts";

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
      const exit = await handler(context, command.opts<Options>(), ...(all.slice(0, -2) as Args)).catch(
        (error: unknown) => {
          throw codeOf(error) === "auth.invalid" ? rejectedTokenError(context, error as Error) : error;
        },
      );
      if (exit !== undefined) setExitCode(exit);
    };
}

/** Names the rejected credential and the gateway, because a forgotten variable overrides the credential of the home. */
function rejectedTokenError(context: CommandContext, error: Error): BackplaneError {
  const { flags, io, home } = context;
  const source = tokenSource(flags, io.env, home);
  const { details } = error as { details?: ErrorDetails };
  return new BackplaneError(
    "auth.invalid",
    `The gateway at ${context.url()} rejected the token from ${source}.`,
    {
      ...(details === undefined ? {} : { details }),
      fix: "Pass a valid token with --token or BACKPLANE_TOKEN, or neither for the gateway of this home. An admin creates one with `backplane key create`.",
      cause: error,
    },
  );
}
