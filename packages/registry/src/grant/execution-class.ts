/** The class that an export runs as. A package can request more isolation; only a binding's policy can choose less. */
import { type Binding, DEFAULT_CLASS, type ExecutionClass, type PluginExport } from "@backplane/contract";
import { moreIsolated } from "./intersect.ts";

function defaultClass(item: PluginExport): ExecutionClass {
  const default_class = DEFAULT_CLASS[item.kind];
  return item.execution_class === undefined
    ? default_class
    : moreIsolated(default_class, item.execution_class);
}

export function effectiveClass(binding: Pick<Binding, "policy">, item: PluginExport): ExecutionClass {
  return binding.policy.class ?? defaultClass(item);
}

/** Whether `requested` is less isolated than the class that the export runs as by default. */
export function lowersIsolation(requested: ExecutionClass, item: PluginExport): boolean {
  const default_class = defaultClass(item);
  return requested !== default_class && moreIsolated(requested, default_class) === default_class;
}
