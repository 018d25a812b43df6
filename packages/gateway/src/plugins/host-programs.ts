/**
 * Where the programs are that load other people's modules in processes of their own. Found and not imported: they are
 * no part of this process. One that is not there makes its packages unable to run, which is said when one is called.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { RunnerOptions } from "@backplane/runner";

const TOOL_HOST = "@backplane/sdk/tool-host";
const INSTRUMENT_HOST = "@backplane/sdk/instrument-host";
/** A file of package backplane.instruments, three folders below its root. */
const JAVA_HOST = "@backplane/sdk/java-host";

/** `cache`: where what has to be compiled is kept. */
export function hostPrograms(cache: string): NonNullable<RunnerOptions["programs"]> {
  const tool_files = resolved(TOOL_HOST);
  const instruments = resolved(INSTRUMENT_HOST);
  const java = resolved(JAVA_HOST);
  return {
    ...(tool_files === null ? {} : { tool_files }),
    ...(instruments === null ? {} : { instruments }),
    ...(java === null ? {} : { java_instruments: { sources: dirname(dirname(dirname(java))), cache } }),
  };
}

function resolved(name: string): string | null {
  try {
    const file = createRequire(import.meta.url).resolve(name);
    return existsSync(file) ? file : null;
  } catch {
    return null;
  }
}
