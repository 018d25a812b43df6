/** Validates a plugin at import, so that its author sees a mistake before any gateway does. */
import { BackplaneError, type KernelPlugin, findKernelPluginProblem } from "@backplane/contract";

/** Makes the compiler reject a misspelled method, which would otherwise never be called. */
type NothingElse<P> = { [K in Exclude<keyof P, keyof KernelPlugin>]: never };

/** `export const plugin = defineKernelPlugin({ name, version, category, subscriptions: () => [], … })`. */
export function defineKernelPlugin<const P extends KernelPlugin>(plugin: P & NothingElse<P>): P {
  const problem = findKernelPluginProblem(plugin);
  if (problem === null) return plugin;
  const name = (plugin as { name?: unknown } | null)?.name;
  const label = typeof name === "string" && name !== "" ? ` ${name.slice(0, 80)}` : "";
  throw new BackplaneError("plugin.invalid", `The kernel plugin${label} is not valid: ${problem}.`);
}
