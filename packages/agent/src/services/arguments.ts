/** Reads and checks the arguments of service calls one by one, because a plugin's arguments are untyped. */
import { BackplaneError, isObject, type JsonObject } from "@backplane/contract";

export function text(args: JsonObject, name: string): string {
  const value = args[name];
  return typeof value === "string" ? value : reject(name, "a string");
}

export function integer(args: JsonObject, name: string): number {
  const value = args[name];
  return typeof value === "number" && Number.isInteger(value) ? value : reject(name, "a whole number");
}

export function flag(args: JsonObject, name: string): boolean {
  const value = args[name] ?? false;
  return typeof value === "boolean" ? value : reject(name, "true or false");
}

export function object(args: JsonObject, name: string): JsonObject {
  const value = args[name];
  return isObject(value) ? value : reject(name, "an object");
}

export function list(args: JsonObject, name: string): JsonObject[] {
  const value = args[name];
  return Array.isArray(value) && value.every(isObject) ? value : reject(name, "a list of objects");
}

/** Returns an empty object when the argument is missing or null. */
export function optional<N extends string, T>(
  args: JsonObject,
  name: N,
  read: (args: JsonObject, name: string) => T,
): { [K in N]?: T } {
  const value = args[name];
  if (value === undefined || value === null) return {};
  return { [name]: read(args, name) } as { [K in N]?: T };
}

function reject(name: string, wanted: string): never {
  const message = `must be ${wanted}`;
  throw new BackplaneError("request.invalid", `${name} ${message}.`, {
    details: { issues: [{ path: name, message: `${name} ${message}` }] },
  });
}
