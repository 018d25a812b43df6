/**
 * Imports one tool file: TypeScript or JavaScript, ES module or CommonJS, on every supported version of Node.js. jiti
 * compiles the file in memory; nothing is written to disk. Tool files import only types from `@vellumai/plugin-api`; an
 * empty virtual module replaces it, so the import always succeeds.
 */
import { join } from "node:path";
import type { Jiti } from "jiti";
import { readToolDefinition, type ToolFile } from "./tool-definition.ts";

const PLUGIN_API = "@vellumai/plugin-api";

export type LoadToolFile = (file: string) => Promise<ToolFile>;

/** Every file is evaluated once per loader. */
export function createToolFileLoader(folder: string): LoadToolFile {
  let compiler: Promise<Jiti> | undefined;
  const loaded = new Map<string, Promise<ToolFile>>();
  return (file) => {
    let tool = loaded.get(file);
    if (tool === undefined) {
      compiler ??= openCompiler(folder);
      tool = importFile(compiler, folder, file);
      loaded.set(file, tool);
    }
    return tool;
  };
}

/**
 * The compiler is large, so it is loaded with the first import of a file; a process that only forwards
 * descriptions never needs it.
 */
async function openCompiler(folder: string): Promise<Jiti> {
  const { createJiti } = await import("jiti/static");
  return createJiti(join(folder, "tools/"), {
    fsCache: false,
    interopDefault: false,
    virtualModules: { [PLUGIN_API]: { __esModule: true, default: {} } },
  });
}

async function importFile(compiler: Promise<Jiti>, folder: string, file: string): Promise<ToolFile> {
  const jiti = await compiler;
  return readToolDefinition(file, await jiti.import(join(folder, file)));
}
