/**
 * A payload as the bus keeps it: an own frozen copy of plain data. What a publisher changes later, or one handler
 * tries to change, reaches nobody else, and a plugin sees the same inline as in another process.
 */
import { BackplaneError, WIRE_LIMITS } from "@backplane/contract";

type Plain = Record<string, unknown>;

/** Copies that go into many payloads, and how deep they are. */
const shared = new WeakMap<object, number>();

/** An own frozen copy that later payloads hold as it is: what every model call repeats is copied once. */
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
  return Object.isFrozen(value) && shared.has(value);
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
  for (const item of list) out.push(copy(item ?? null, depth + 1));
  return Object.freeze(out);
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function copyObject(from: Plain, depth: number): Readonly<Plain> {
  if (isShared(from) && depth + shared.get(from)! <= WIRE_LIMITS.json_depth) return from;
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
    out[key] = typeof value === "string" ? value : copy(value, depth + 1);
  }
  return Object.freeze(out);
}

function refuse(what: string): BackplaneError {
  return new BackplaneError("request.invalid", `${what}; send values that JSON can spell`);
}
