/**
 * Shape checks for `vai.rpc.v1` frames, written by hand because a zod parse would cost more than the rest of a call
 * (benchmark wire.warm-call). A property test keeps them in agreement with the schemas of the contract module. A
 * check returns a description of the problem, or undefined.
 */
import { isObject, type JsonObject, OPS, TERMINAL_STATUSES } from "@backplane/contract";

export const VAI_PROTOCOL = "vai.rpc.v1";

const STATUSES: ReadonlySet<unknown> = new Set([...TERMINAL_STATUSES, "ack"]);
const SUCCESSES: ReadonlySet<unknown> = new Set(["succeeded", "ack"]);
const KNOWN_OPS: ReadonlySet<unknown> = new Set(Object.values(OPS));

export function isNonEmpty(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Many serializers write an absent field as null. */
function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}

export function checkPluginHello(frame: JsonObject): string | undefined {
  if (frame.type !== "hello") return "the first frame must have type hello";
  if (frame.role !== "plugin") return "role must be plugin";
  const plugin = frame.plugin;
  if (!isObject(plugin)) return "plugin must be an object";
  if (typeof plugin.package_id !== "string") return "plugin.package_id must be a string";
  if (typeof plugin.version !== "string") return "plugin.version must be a string";
  return undefined;
}

export function checkHostHello(frame: JsonObject): string | undefined {
  if (frame.type !== "hello") return "the first frame must have type hello";
  if (frame.role !== "host") return "role must be host";
  const host = frame.host;
  if (!isObject(host)) return "host must be an object";
  if (typeof host.name !== "string") return "host.name must be a string";
  if (typeof host.version !== "string") return "host.version must be a string";
  return undefined;
}

/** vai.response: `ok:false` is for protocol failures only; a failure of the plugin is `ok:true` with a status. */
export function checkVaiResponse(frame: JsonObject): string | undefined {
  if (frame.protocol !== VAI_PROTOCOL) return `protocol must be ${VAI_PROTOCOL}`;
  if (frame.ok === true) {
    if (!isObject(frame.body)) return "ok:true needs a body";
    const { status } = frame.body;
    if (!STATUSES.has(status)) return "ok:true needs a known status in its body";
    if (isPresent(frame.error)) return "ok:true must not carry an error";
    if (SUCCESSES.has(status) && isPresent(frame.body.error))
      return "a successful status must not carry an error";
    return undefined;
  }
  if (frame.ok !== false) return "ok must be true or false";
  if (isObject(frame.body) && SUCCESSES.has(frame.body.status)) {
    return "ok:false must not carry a successful status";
  }
  const error = frame.error;
  if (!isObject(error)) return "ok:false needs an error";
  if (!isNonEmpty(error.code)) return "error.code must be a non-empty string";
  if (typeof error.message !== "string") return "error.message must be a string";
  return undefined;
}

export function checkVaiEvent(frame: JsonObject): string | undefined {
  if (frame.protocol !== VAI_PROTOCOL) return `protocol must be ${VAI_PROTOCOL}`;
  if (!isNonEmpty(frame.request_id)) return "request_id must be a non-empty string";
  if (!isObject(frame.event)) return "event must be an object";
  if (!isNonEmpty(frame.event.type)) return "event.type must be a non-empty string";
  return undefined;
}

/** The plugin side trusts the context, which the host created, and checks only that it is present. */
export function checkVaiRequest(frame: JsonObject): string | undefined {
  if (frame.protocol !== VAI_PROTOCOL) return `protocol must be ${VAI_PROTOCOL}`;
  if (!KNOWN_OPS.has(frame.op)) return "unknown op";
  if (!isObject(frame.body)) return "missing body";
  if (typeof frame.body.export_id !== "string") return "body.export_id must be a string";
  if (!isObject(frame.body.context)) return "body.context must be an object";
  return undefined;
}
