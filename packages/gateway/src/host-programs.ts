/**
 * Where the programs are that load other people's modules in processes of their own. Found and not imported: they are
 * no part of this process. One that is not there makes its packages unable to run, which is said when one is called.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import type { RunnerOptions } from "@backplane/runner";

const TOOL_HOST = "@backplane/sdk/tool-host";
const INSTRUMENT_HOST = "@backplane/sdk/instrument-host";

export function hostPrograms(): NonNullable<RunnerOptions["programs"]> {
  const tool_files = resolved(TOOL_HOST);
  const instruments = resolved(INSTRUMENT_HOST);
  return {
    ...(tool_files === null ? {} : { tool_files }),
    ...(instruments === null ? {} : { instruments }),
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
