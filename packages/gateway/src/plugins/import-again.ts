/**
 * A module and every file of its package, read anew. Node keeps each ES module for ever that it has once imported, under
 * whatever URL, so a reload by import would cost memory each time, and would reread only the file that is named. Here
 * jiti compiles the package's own files, each once a load, into functions that are forgotten with the plugin. What the
 * package depends on is left to Node and not reread.
 */
import { createRequire } from "node:module";
import { dirname, join, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Jiti, JitiOptions } from "jiti";

/** jiti below its public door, which always tries Node's import first and so never rereads. Its version is pinned. */
type MakeJiti = (
  file: string,
  options: JitiOptions,
  means: {
    onError: (error: unknown) => never;
    nativeImport: (id: string | URL) => Promise<unknown>;
    createRequire: typeof createRequire;
  },
) => Jiti;

export async function importAgain(file: string, folder: string): Promise<unknown> {
  const require = createRequire(import.meta.url);
  // Only when something is reloaded: the compiler is large.
  const jiti_dir = join(dirname(require.resolve("jiti/package.json")), "dist");
  const makeJiti = require(join(jiti_dir, "jiti.cjs")) as MakeJiti;
  const transform = require(join(jiti_dir, "babel.cjs")) as JitiOptions["transform"] & {};
  const own = ownFiles(folder);
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
        if (own(path)) throw new Error("compiled, not imported");
        return (await import(path.startsWith(sep) ? pathToFileURL(path).href : path)) as unknown;
      },
    },
  );
  // JSON and CommonJS that a file requires.
  for (const path of Object.keys(require.cache)) if (own(path)) delete require.cache[path];
  return await jiti.import(file);
}

function ownFiles(folder: string): (path: string) => boolean {
  const inside = join(folder, sep);
  const libraries = join(folder, "node_modules", sep);
  return (path) => path.startsWith(inside) && !path.startsWith(libraries);
}
