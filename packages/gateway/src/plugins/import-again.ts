/**
 * Reloads a module with every file of its package. Node never frees an imported ES module, whatever its URL, so a
 * reload by import would leak memory each time, and would reload only the one file. Instead, jiti compiles the
 * package's own files into functions that are freed with the plugin. Dependencies of the package are imported by Node
 * and not reloaded.
 */
import { createRequire } from "node:module";
import { dirname, join, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Jiti, JitiOptions } from "jiti";

/**
 * The internal factory of jiti: its public API first tries Node's import, so it never reloads. The version is
 * pinned.
 */
type MakeJiti = (
  file: string,
  options: JitiOptions,
  natives: {
    onError: (error: unknown) => never;
    nativeImport: (id: string | URL) => Promise<unknown>;
    createRequire: typeof createRequire;
  },
) => Jiti;

export async function importAgain(file: string, folder: string): Promise<unknown> {
  const require = createRequire(import.meta.url);
  // Loaded only for a reload, because the compiler is large.
  const jiti_dir = join(dirname(require.resolve("jiti/package.json")), "dist");
  const makeJiti = require(join(jiti_dir, "jiti.cjs")) as MakeJiti;
  const transform = require(join(jiti_dir, "babel.cjs")) as JitiOptions["transform"] & {};
  const isOwnFile = matchOwnFiles(folder);
  const jiti = makeJiti(
    file,
    { fsCache: false, moduleCache: false, interopDefault: false, transform },
    {
      createRequire,
      onError(error) {
        throw error;
      },
      async nativeImport(id) {
        const path = id instanceof URL ? fileURLToPath(id) : id;
        if (isOwnFile(path)) throw new Error("the package's own files are compiled by jiti");
        return (await import(path.startsWith(sep) ? pathToFileURL(path).href : path)) as unknown;
      },
    },
  );
  // Also reloads JSON and CommonJS files that the package requires.
  for (const path of Object.keys(require.cache)) if (isOwnFile(path)) delete require.cache[path];
  return await jiti.import(file);
}

function matchOwnFiles(folder: string): (path: string) => boolean {
  const inside = join(folder, sep);
  const libraries = join(folder, "node_modules", sep);
  return (path) => path.startsWith(inside) && !path.startsWith(libraries);
}
