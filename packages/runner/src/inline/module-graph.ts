/**
 * Loads the modules of a plugin in this process. Each load is a separate module graph with new instances of all
 * files. InProcess can also import the host's libraries. ClassLoaderIsolated can import the instrument API, Node's
 * built-in modules and files of its folder only. Neither is a security boundary.
 */
import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import { isBuiltin, registerHooks } from "node:module";
import { resolve as resolvePath } from "node:path";
import { pathToFileURL } from "node:url";
import {
  BackplaneError,
  INSTRUMENT_API,
  INSTRUMENT_API_SOURCE,
  type IsolationMode,
} from "@backplane/contract";

export interface ModuleGraph {
  /** Rejects with whatever the import throws. */
  import(file: string): Promise<Record<string, unknown>>;
  /** Removes the hooks of this graph. Loaded modules stay in memory until the process exits. */
  close(): void;
}

const API_URL = `data:text/javascript,${encodeURIComponent(INSTRUMENT_API_SOURCE)}`;

/** Node's own import, which bundlers and test runners do not rewrite. Only this import calls the hooks. */
const NATIVE = "data:text/javascript,export default (url) => import(url)";

export function openModuleGraph(folder: string, mode: IsolationMode): ModuleGraph {
  const root = `${pathToFileURL(realpathSync(folder)).href}/`;
  // Distinguishes this graph from all others in the process.
  const tag = `?graph=${randomUUID()}`;
  const isInGraph = (url: string | undefined) =>
    url?.startsWith(root) === true && (url.endsWith(tag) || !url.includes("?graph="));
  const addTag = (url: string) => (url.startsWith(root) && !url.includes("?") ? `${url}${tag}` : url);
  const invisibleError = (specifier: string) =>
    new BackplaneError(
      "plugin.invalid",
      `${specifier} is not visible to a ClassLoaderIsolated plugin; add it to the package's node_modules.`,
    );
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (!isInGraph(context.parentURL)) return next(specifier, context);
      if (specifier === INSTRUMENT_API) return { url: API_URL, shortCircuit: true };
      if (isBuiltin(specifier)) return next(specifier, context);
      let resolved: ReturnType<typeof next>;
      try {
        resolved = next(specifier, context);
      } catch (error) {
        if (/^\.{0,2}\/|^file:/.test(specifier)) throw error;
        if (mode !== "InProcess") throw invisibleError(specifier);
        return next(specifier, { ...context, parentURL: import.meta.url });
      }
      if (mode !== "InProcess" && !resolved.url.startsWith(root)) throw invisibleError(specifier);
      return { ...resolved, url: addTag(resolved.url) };
    },
  });
  return {
    async import(file) {
      const url = addTag(pathToFileURL(resolvePath(realpathSync(folder), file)).href);
      if (!url.startsWith(root))
        throw new BackplaneError("plugin.invalid", `${file} lies outside the package.`);
      const native = (await import(/* @vite-ignore */ NATIVE)) as {
        default: (url: string) => Promise<object>;
      };
      return (await native.default(url)) as Record<string, unknown>;
    },
    close: () => hooks.deregister(),
  };
}
