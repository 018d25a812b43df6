/**
 * Locates the host programs that load the modules of plugins in separate processes. They are only resolved and not
 * imported, because they do not run in this process. A call to a package whose host program is missing fails.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { RunnerOptions } from "@backplane/runner";

const TOOL_HOST = "@backplane/sdk/tool-host";
const INSTRUMENT_HOST = "@backplane/sdk/instrument-host";
/** A file of the Java package backplane.instruments, whose folder is two levels below the source root. */
const JAVA_HOST = "@backplane/sdk/java-host";

/** `cache` is the folder for compiled programs. */
export function findHostPrograms(cache: string): NonNullable<RunnerOptions["programs"]> {
  const tool_files = resolveProgram(TOOL_HOST);
  const instruments = resolveProgram(INSTRUMENT_HOST);
  const java = resolveProgram(JAVA_HOST);
  return {
    ...(tool_files === null ? {} : { tool_files }),
    ...(instruments === null ? {} : { instruments }),
    ...(java === null ? {} : { java_instruments: { sources: dirname(dirname(dirname(java))), cache } }),
  };
}

function resolveProgram(name: string): string | null {
  try {
    const file = createRequire(import.meta.url).resolve(name);
    return existsSync(file) ? file : null;
  } catch {
    return null;
  }
}
