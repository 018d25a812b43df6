/**
 * The program that hosts tool files uses `vai.rpc.v1`. A call to `DESCRIBE_TOOLS`, which cannot be the name of a tool,
 * returns a `ToolFilesDescription` as structured output.
 */
import type { Json } from "../values/json.ts";

export const DESCRIBE_TOOLS = "$describe";

/** The time limit for importing one file. A file that takes longer is listed with a load error. */
export const TOOL_IMPORT_MS = 10_000;

/** The time limit for describing all files of a package; shorter than the gateway's timeout for that call. */
export const TOOL_DESCRIBE_MS = 25_000;

/** Whether a file in `tools/` is JavaScript or TypeScript, and neither hidden nor a type declaration. */
export function isToolFile(name: string): boolean {
  return /^[^.].*\.[cm]?[jt]s$/.test(name) && !/\.d\.[cm]?ts$/.test(name);
}

/** The file name without its extension, which is the default name of the tool. */
export function toolNameOf(file: string): string {
  return file.slice(file.lastIndexOf("/") + 1).replace(/\.[cm]?[jt]s$/, "");
}

/** The tool's id in the catalog: its name, changed where the name is not a valid id. */
export function toolIdOf(name: string): string {
  const clean = name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
  return /^[A-Za-z]/.test(clean) ? clean : `t_${clean}`.slice(0, 64);
}

/** Whether the name of a tool implies the gateway's machine as the target if the file does not set one. */
export function impliesHostTarget(name: string): boolean {
  return name.startsWith("host_") || name.startsWith("computer_use_");
}

/** A tool file with all defaults filled in. */
export interface ToolFileDescription {
  /** Path in the package, such as tools/example.ts. */
  file: string;
  name: string;
  description: string;
  input_schema: Json;
  risk: "low" | "medium" | "high";
  category: string | null;
  target: "sandbox" | "host";
  /** Why the tool cannot run; the other fields then contain only what is known without loading it. */
  load_error: string | null;
}

export interface ToolFilesDescription {
  tools: ToolFileDescription[];
  warnings: string[];
}
