/** The checks of kernel plugins and their tools, shared by the tests of authors, the module host and inline loading. */
import { isRecord } from "../values/json.ts";
import { PLUGIN_CATEGORIES } from "../vocabulary/bus-kinds.ts";
import { EFFECT_CLASSES, RISKS } from "../vocabulary/vocabulary.ts";

const NAME = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const OPTIONAL_METHODS = ["onLoad", "onEvent", "onUnload", "healthCheck", "onRequest"] as const;
const ID_FIELDS = ["providerId", "strategyId", "adapterId"] as const;
const MAX_CATEGORY_LENGTH = 64;
const HTTP_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Kebab-case, at most 64 characters. */
export function isPluginName(name: unknown): boolean {
  return typeof name === "string" && name.length <= 64 && NAME.test(name);
}

/**
 * Describes the problem of a plugin object in one clause; null if there is none. `declaration` is the entry in
 * package.json that the operator agreed to.
 */
export function findKernelPluginProblem(
  value: unknown,
  declaration?: { name: string; category: string },
): string | null {
  if (!isRecord(value))
    return "it is not an object; export `plugin` as an object with name, version and category";
  if (!isPluginName(value.name)) {
    return `its name ${formatValue(value.name)} is not kebab-case; use a-z, 0-9 and single dashes, at most 64 characters`;
  }
  if (typeof value.version !== "string" || value.version === "")
    return "it has no version; add one, such as 1.0.0";
  if (!(PLUGIN_CATEGORIES as readonly unknown[]).includes(value.category)) {
    return `its category ${formatValue(value.category)} is not one of ${PLUGIN_CATEGORIES.join(", ")}`;
  }
  if (typeof value.subscriptions !== "function") {
    return "subscriptions is not a function; it must return the list of event kinds, which may be empty";
  }
  for (const method of OPTIONAL_METHODS) {
    if (value[method] !== undefined && typeof value[method] !== "function")
      return `${method} is not a function`;
  }
  for (const list of ["requires", "prefixes", "protocols"] as const) {
    if (value[list] !== undefined && !isStringList(value[list])) return `${list} is not a list of strings`;
  }
  for (const id of ID_FIELDS) {
    if (value[id] !== undefined && typeof value[id] !== "string") return `${id} is not a string`;
  }
  if (value.configSchema !== undefined && !isRecord(value.configSchema))
    return "configSchema is not a JSON Schema";
  return (
    findToolPluginProblem(value) ?? findRoutesProblem(value) ?? findDeclarationProblem(value, declaration)
  );
}

/**
 * Describes the problem of a registered tool in one clause; null if there is none. An unknown value is never ignored:
 * the risk of a call, the rights of guests and recovery after a crash depend on these fields.
 */
export function findKernelToolProblem(spec: unknown): string | null {
  if (!isRecord(spec)) return "the tool is not an object";
  const { name, description, parameters, effect_class, risk, category, timeout_ms } = spec;
  if (typeof name !== "string" || !TOOL_NAME.test(name))
    return `${formatValue(name)} is not a valid tool name: use 1 to 64 letters, digits, _ and -`;
  if (typeof description !== "string") return `tool ${name} has no description`;
  if (!isRecord(parameters) || parameters.type !== "object")
    return `the parameters of tool ${name} are not a JSON Schema of an object`;
  if (effect_class !== undefined && !(EFFECT_CLASSES as readonly unknown[]).includes(effect_class)) {
    return `the effect_class ${formatValue(effect_class)} of tool ${name} is not one of ${EFFECT_CLASSES.join(", ")}`;
  }
  if (risk !== undefined && !(RISKS as readonly unknown[]).includes(risk))
    return `the risk ${formatValue(risk)} of tool ${name} is not one of ${RISKS.join(", ")}`;
  if (category !== undefined && !isCategory(category))
    return `the category of tool ${name} is not a string of 1 to ${MAX_CATEGORY_LENGTH} characters`;
  if (timeout_ms !== undefined && !isTimeout(timeout_ms))
    return `timeout_ms of tool ${name} is not a positive number`;
  for (const flag of ["requires_approval", "recoverable", "deferred"] as const) {
    if (spec[flag] !== undefined && typeof spec[flag] !== "boolean")
      return `${flag} of tool ${name} is neither true nor false`;
  }
  return null;
}

function isCategory(value: unknown): boolean {
  return typeof value === "string" && value !== "" && value.length <= MAX_CATEGORY_LENGTH;
}

function isTimeout(value: unknown): boolean {
  return typeof value === "number" && value > 0 && value < Number.POSITIVE_INFINITY;
}

function findDeclarationProblem(
  { category, name }: Record<string, unknown>,
  declaration: { name: string; category: string } | undefined,
): string | null {
  if (declaration === undefined) return null;
  if (name !== declaration.name)
    return `its name is ${formatValue(name)}; package.json says ${declaration.name}`;
  if (category === declaration.category) return null;
  return `its category is ${String(category)}; package.json says ${declaration.category}`;
}

function findToolPluginProblem(value: Record<string, unknown>): string | null {
  if (value.toolName === undefined) return null;
  if (typeof value.toolName !== "string" || !TOOL_NAME.test(value.toolName)) {
    return `its toolName ${formatValue(value.toolName)} must consist of 1 to 64 characters from A-Z, a-z, 0-9, _ and -`;
  }
  if (value.category !== "tool") return "only a plugin of category tool has a toolName";
  if (!isRecord(value.jsonSchema)) return "a plugin with a toolName needs the jsonSchema of its arguments";
  return typeof value.onEvent === "function"
    ? null
    : "a plugin with a toolName needs onEvent, which answers its calls";
}

function findRoutesProblem(value: Record<string, unknown>): string | null {
  if (value.routes === undefined) return null;
  if (!Array.isArray(value.routes)) return "routes is not a list";
  for (const route of value.routes as unknown[]) {
    if (!isRecord(route)) return "one of its routes is not an object";
    if (!HTTP_METHODS.includes(route.method as string))
      return `a route's method must be one of ${HTTP_METHODS.join(", ")}`;
    if (typeof route.path !== "string" || !route.path.startsWith("/"))
      return "a route's path must start with /";
    if (typeof route.scope !== "string") return `the route ${route.path} has no scope`;
  }
  if (value.routes.length === 0) return null;
  if (value.category !== "adapter") return "only a plugin of category adapter has routes";
  return typeof value.onRequest === "function"
    ? null
    : "a plugin with routes needs onRequest, which answers its requests";
}

function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function formatValue(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : `(${typeof value})`;
}
