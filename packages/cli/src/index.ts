/**
 * The `backplane` command as a function; the executable is main.ts. Each folder imports only from those before it:
 * terminal, command-line, context, bindings, clients, install and chat, commands (with a subfolder for each command
 * that needs several files), program.
 */
export { EXIT, type ExitCode, toExitCode } from "./command-line/exit-codes.ts";
export { runProgram } from "./program/run.ts";
export { type Io, processIo, type Signal } from "./terminal/io.ts";
