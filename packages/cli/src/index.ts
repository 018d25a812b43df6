/**
 * The `backplane` command as a function; the executable is main.ts. Each folder imports only from those before it:
 * heap, clients, terminal, command-line, context, packages, bindings, install, chat, commands (with a subfolder for
 * commands that need several files), program.
 */
export { EXIT, type ExitCode, toExitCode } from "./command-line/exit-codes.ts";
export { runProgram } from "./program/run.ts";
export { type Io, processIo, type Signal } from "./terminal/io.ts";
