/** The `backplane` command as a function. The program itself is main.ts. */
export { EXIT, type ExitCode, exitCodeOf } from "./exit-codes.ts";
export { type Io, processIo, type Signal } from "./io.ts";
export { run } from "./run.ts";
