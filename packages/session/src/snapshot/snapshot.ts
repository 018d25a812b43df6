/**
 * A payload as the bus keeps it: an own frozen copy of plain data. What a publisher changes later, or one handler
 * tries to change, reaches nobody else, and a plugin sees the same inline as in another process.
 */
import { BackplaneError, WIRE_LIMITS } from "@backplane/contract";

type Plain = Record<string, unknown>;

/** Copies that go into many payloads, and how deep they are. */
const shared = new WeakMap<object, number>();

/** An own frozen copy that lists of later payloads hold as it is: what every model call repeats is copied once. */
export function share<T extends object>(value: T): T {
  try {
    const copied = copyObject(value as Plain, 0) as T;
    shared.set(copied, depthOf(copied));
    return copied;
  } catch {
    // No payload can hold it either, which whoever publishes it is told.
    return value;
  }
}

export function isShared(value: object): boolean {
  return shared.has(value);
}

function isHeld(item: unknown, depth: number): boolean {
  if (typeof item !== "object" || item === null || !Object.isFrozen(item)) return false;
  const own = shared.get(item);
  return own !== undefined && depth + own <= WIRE_LIMITS.json_depth;
}

export function snapshot(payload: unknown): Readonly<Plain> {
  if (typeof payload !== "object" || payload === null || Array.isArray(payload)) {
    throw refuse("a payload must be an object");
  }
  return copyObject(payload as Plain, 0);
}

function copy(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
      return value;
    case "object":
      if (value === null) return null;
      return Array.isArray(value) ? copyArray(value, depth) : copyObject(value as Plain, depth);
    case "undefined":
    case "bigint":
    case "symbol":
    case "function":
      throw refuse(`a payload must be plain data, and holds a ${typeof value}`);
  }
}

function copyArray(list: unknown[], depth: number): readonly unknown[] {
  if (depth >= WIRE_LIMITS.json_depth) throw refuse("a payload is nested too deeply");
  const out: unknown[] = [];
  for (const item of list) out.push(isHeld(item, depth + 1) ? item : copy(item ?? null, depth + 1));
  return Object.freeze(out);
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function copyObject(from: Plain, depth: number): Readonly<Plain> {
  if (depth >= WIRE_LIMITS.json_depth) throw refuse("a payload is nested too deeply");
  const prototype: unknown = Object.getPrototypeOf(from);
  // A plain object of another realm has a prototype whose own prototype is null.
  if (prototype !== Object.prototype && prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw refuse("a payload must be plain data, and holds an instance of a class");
  }
  const out: Plain = {};
  for (const key of Object.keys(from)) {
    const value = from[key];
    if (value === undefined) continue;
    if (key === "__proto__") throw refuse('a payload must not have the key "__proto__"');
    if (key === "constructor" && reachesPrototype(value)) {
      throw refuse('a payload must not have a "constructor" with a "prototype"');
    }
    out[key] = typeof value === "string" ? value : copy(value, depth + 1);
  }
  return Object.freeze(out);
}

/** What no frame to a plugin may hold is not let in here: a plugin must not fail over a client's words. */
function reachesPrototype(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}

function refuse(what: string): BackplaneError {
  return new BackplaneError("request.invalid", `${what}; send values that JSON can spell`);
}
