/**
 * What crosses the pipe to the program that hosts tool files: it speaks `vai.rpc.v1`, and a call of `DESCRIBE_TOOLS`,
 * which can be no tool's name, answers with this description as its structured output.
 */
import type { Json } from "../values/json.ts";

export const DESCRIBE_TOOLS = "$describe";

/** A file that has not finished its import by then is given up. */
export const TOOL_IMPORT_MS = 10_000;

/** All files of a package together: less than the gateway waits for a description. */
export const TOOL_DESCRIBE_MS = 25_000;

/** Which files of `tools/` are tools. Declarations are none. */
export function isToolFile(name: string): boolean {
  return /^[^.].*\.[cm]?[jt]s$/.test(name) && !/\.d\.[cm]?ts$/.test(name);
}

/** The file's basename: what the tool is called when it does not say otherwise. */
export function toolNameOf(file: string): string {
  return file.slice(file.lastIndexOf("/") + 1).replace(/\.[cm]?[jt]s$/, "");
}

/** The id that a tool has in the catalog: its name, where that can be one. */
export function toolIdOf(name: string): string {
  const clean = name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
  return /^[A-Za-z]/.test(clean) ? clean : `t_${clean}`.slice(0, 64);
}

/** Names that mean the gateway's own machine when the file does not say where it runs. */
export function requestsHost(name: string): boolean {
  return name.startsWith("host_") || name.startsWith("computer_use_");
}

/** One file, with every default filled in. */
export interface ToolFileDescription {
  /** Below the package, such as tools/example.ts. */
  file: string;
  name: string;
  description: string;
  input_schema: Json;
  risk: "low" | "medium" | "high";
  category: string | null;
  target: "sandbox" | "host";
  /** Why it cannot run; the rest is then what is known without it. */
  load_error: string | null;
}

export interface ToolFilesDescription {
  tools: ToolFileDescription[];
  warnings: string[];
}
