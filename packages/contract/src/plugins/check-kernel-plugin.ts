/** Checks a kernel plugin, for authors, the module host and inline loading. */
import { PLUGIN_CATEGORIES } from "../vocabulary/bus-kinds.ts";

const NAME = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const HOOKS = ["onLoad", "onEvent", "onUnload", "healthCheck", "onRequest"] as const;
const IDS = ["providerId", "strategyId", "adapterId"] as const;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Kebab-case, at most 64 characters. */
export function isPluginName(name: unknown): boolean {
  return typeof name === "string" && name.length <= 64 && NAME.test(name);
}

/**
 * Describes the problem of a plugin object as one clause with its remedy; null if there is none. `declared` is the
 * declaration in package.json that the operator agreed to.
 */
export function kernelPluginProblem(
  value: unknown,
  declared?: { name: string; category: string },
): string | null {
  if (!isRecord(value))
    return "it is not an object; export `plugin` as an object with name, version and category";
  if (!isPluginName(value.name)) {
    return `its name ${show(value.name)} is not kebab-case; use a-z, 0-9 and single dashes, at most 64 characters`;
  }
  if (typeof value.version !== "string" || value.version === "")
    return "it has no version; add one, such as 1.0.0";
  if (!(PLUGIN_CATEGORIES as readonly unknown[]).includes(value.category)) {
    return `its category ${show(value.category)} is not one of ${PLUGIN_CATEGORIES.join(", ")}`;
  }
  if (typeof value.subscriptions !== "function") {
    return "subscriptions is not a function; return the list of event kinds, which may be empty";
  }
  for (const hook of HOOKS) {
    if (value[hook] !== undefined && typeof value[hook] !== "function") return `${hook} is not a function`;
  }
  for (const list of ["requires", "prefixes", "protocols"] as const) {
    if (value[list] !== undefined && !isStrings(value[list])) return `${list} is not a list of strings`;
  }
  for (const id of IDS) {
    if (value[id] !== undefined && typeof value[id] !== "string") return `${id} is not a string`;
  }
  if (value.configSchema !== undefined && !isRecord(value.configSchema))
    return "configSchema is not a JSON Schema";
  return toolProblem(value) ?? routesProblem(value) ?? declarationProblem(value, declared);
}

function declarationProblem(
  { category, name }: Record<string, unknown>,
  declared: { name: string; category: string } | undefined,
): string | null {
  if (declared === undefined) return null;
  if (name !== declared.name) return `its name is ${show(name)}; package.json says ${declared.name}`;
  if (category === declared.category) return null;
  return `its category is ${String(category)}; package.json says ${declared.category}`;
}

function toolProblem(value: Record<string, unknown>): string | null {
  if (value.toolName === undefined) return null;
  if (typeof value.toolName !== "string" || !TOOL_NAME.test(value.toolName)) {
    return `its toolName ${show(value.toolName)} must consist of 1 to 64 characters from A-Z, a-z, 0-9, _ and -`;
  }
  if (value.category !== "tool") return "only a plugin of category tool has a toolName";
  if (!isRecord(value.jsonSchema)) return "a plugin with a toolName needs the jsonSchema of its arguments";
  return typeof value.onEvent === "function"
    ? null
    : "a plugin with a toolName needs onEvent, which answers its calls";
}

function routesProblem(value: Record<string, unknown>): string | null {
  if (value.routes === undefined) return null;
  if (!Array.isArray(value.routes)) return "routes is not a list";
  for (const route of value.routes as unknown[]) {
    if (!isRecord(route)) return "one of its routes is not an object";
    if (!METHODS.includes(route.method as string))
      return `a route's method must be one of ${METHODS.join(", ")}`;
    if (typeof route.path !== "string" || !route.path.startsWith("/"))
      return "a route's path must start with /";
    if (typeof route.scope !== "string") return `the route ${route.path} names no scope`;
  }
  if (value.routes.length === 0) return null;
  if (value.category !== "adapter") return "only a plugin of category adapter has routes";
  return typeof value.onRequest === "function"
    ? null
    : "a plugin with routes needs onRequest, which answers its requests";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : `(${typeof value})`;
}
