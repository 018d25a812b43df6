/**
 * Imports one tool file: TypeScript or JavaScript, ES module or CommonJS, on every supported Node. jiti
 * compiles the file in memory; nothing is written to disk. Types come from `@vellumai/plugin-api`, which
 * exports no values, so an import of that name always works.
 */
import { join } from "node:path";
import type { Jiti } from "jiti";
import { type ToolFile, toolDefinition } from "./tool-definition.ts";

const PLUGIN_API = "@vellumai/plugin-api";

export type LoadToolFile = (file: string) => Promise<ToolFile>;

/** Every file is evaluated once per loader. */
export function toolFileLoader(folder: string): LoadToolFile {
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
  return toolDefinition(file, await jiti.import(join(folder, file)));
}
