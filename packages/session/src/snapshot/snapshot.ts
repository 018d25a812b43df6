/**
 * Copies a payload into frozen plain data. A later change by the publisher or by a handler therefore affects nobody
 * else, and a plugin sees the same payload inline as in its own process.
 */
import { BackplaneError, isObject, WIRE_LIMITS } from "@backplane/contract";

type PlainObject = Record<string, unknown>;

/**
 * The depth of each copy made by `share`. Every model call repeats the messages and tools of its session; they
 * are copied once instead of once per event (benchmark loop.turn).
 */
const shared = new WeakMap<object, number>();

/** Returns a frozen copy that `snapshot` puts into lists of later payloads without copying it again. */
export function share<T extends object>(value: T): T {
  try {
    const copied = copyObject(value as PlainObject, 0) as T;
    shared.set(copied, depthOf(copied));
    return copied;
  } catch {
    // `snapshot` rejects the value as well and reports the reason to its publisher.
    return value;
  }
}

export function isShared(value: object): boolean {
  return shared.has(value);
}

function isReusable(item: unknown, depth: number): boolean {
  if (typeof item !== "object" || item === null || !Object.isFrozen(item)) return false;
  const shared_depth = shared.get(item);
  return shared_depth !== undefined && depth + shared_depth <= WIRE_LIMITS.json_depth;
}

export function snapshot(payload: unknown): Readonly<PlainObject> {
  if (!isObject(payload)) throw invalidPayloadError("A payload must be an object");
  return copyObject(payload, 0);
}

function copy(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return toJsonNumber(value);
    case "object":
      if (value === null) return null;
      return Array.isArray(value) ? copyArray(value, depth) : copyObject(value as PlainObject, depth);
    case "undefined":
    case "bigint":
    case "symbol":
    case "function":
      throw invalidPayloadError(`A payload must be plain data, but contains a ${typeof value}`);
  }
}

/** JSON writes NaN and the infinities as null, and -0 as 0. */
function toJsonNumber(value: number): number | null {
  if (value === 0) return 0;
  return Number.isFinite(value) ? value : null;
}

function copyArray(list: unknown[], depth: number): readonly unknown[] {
  if (depth >= WIRE_LIMITS.json_depth) throw invalidPayloadError("A payload is nested too deeply");
  const out: unknown[] = [];
  for (const item of list) out.push(isReusable(item, depth + 1) ? item : copy(item ?? null, depth + 1));
  return Object.freeze(out);
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function copyObject(from: PlainObject, depth: number): Readonly<PlainObject> {
  if (depth >= WIRE_LIMITS.json_depth) throw invalidPayloadError("A payload is nested too deeply");
  const prototype: unknown = Object.getPrototypeOf(from);
  // A plain object of another realm has a prototype whose own prototype is null.
  if (prototype !== Object.prototype && prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw invalidPayloadError("A payload must be plain data, but contains an instance of a class");
  }
  const out: PlainObject = {};
  for (const key of Object.keys(from)) {
    const value = from[key];
    if (value === undefined) continue;
    if (key === "__proto__") throw invalidPayloadError('A payload must not have the key "__proto__"');
    if (key === "constructor" && reachesPrototype(value)) {
      throw invalidPayloadError('A payload must not have a "constructor" with a "prototype"');
    }
    out[key] = typeof value === "string" ? value : copy(value, depth + 1);
  }
  return Object.freeze(out);
}

/** Frames to plugins reject such values; rejecting them here keeps a client's input from failing the plugin. */
function reachesPrototype(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "prototype");
}

function invalidPayloadError(problem: string): BackplaneError {
  return new BackplaneError("request.invalid", `${problem}. Send only values that JSON can represent.`);
}
