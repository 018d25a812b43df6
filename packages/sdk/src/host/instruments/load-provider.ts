/** From `./provider.js#HelloProvider` to a provider: an object, or an instance of an exported class. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { BackplaneError, type InstrumentProvider, instrumentProviderOf } from "@backplane/contract";

/** What the import throws goes on as it is, with its author's words. */
export async function loadProvider(reference: string, folder: string): Promise<InstrumentProvider> {
  const [file, name = "default"] = reference.split("#") as [string, string?];
  const exports = (await import(pathToFileURL(resolve(folder, file)).href)) as Record<string, unknown>;
  const found = instrumentProviderOf(exports, name);
  if (typeof found !== "string") return found;
  throw new BackplaneError("plugin.invalid", `${reference}: ${found}.`);
}
