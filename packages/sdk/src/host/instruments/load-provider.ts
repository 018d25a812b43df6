/**
 * Resolves `./provider.js#HelloProvider` to a provider: an object, or an instance of an exported class. The
 * instrument API can be imported whether or not the author bundled it.
 */
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import {
  BackplaneError,
  findInstrumentProvider,
  INSTRUMENT_API,
  INSTRUMENT_API_SOURCE,
  type InstrumentProvider,
} from "@backplane/contract";

/** Errors of the import are rethrown unchanged, so that the author's message survives. */
export async function loadProvider(reference: string, folder: string): Promise<InstrumentProvider> {
  const [file, name = "default"] = reference.split("#") as [string, string?];
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === INSTRUMENT_API
        ? { url: `data:text/javascript,${encodeURIComponent(INSTRUMENT_API_SOURCE)}`, shortCircuit: true }
        : next(specifier, context),
  });
  let exports: Record<string, unknown>;
  try {
    exports = (await import(pathToFileURL(resolve(folder, file)).href)) as Record<string, unknown>;
  } finally {
    hooks.deregister();
  }
  const provider = findInstrumentProvider(exports, name);
  if (typeof provider !== "string") return provider;
  throw new BackplaneError("plugin.invalid", `${reference}: ${provider}.`);
}
