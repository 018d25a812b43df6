/** What an adapter answers, checked before it becomes an HTTP response. */
import { type AdapterAnswer, BackplaneError, type Json, WIRE_LIMITS } from "@backplane/contract";

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Framing is the gateway's, and a cookie on its origin would be the console's. */
const FORBIDDEN = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "set-cookie",
  "transfer-encoding",
  "upgrade",
]);

export function checkAnswer(plugin: string, answer: unknown): AdapterAnswer {
  const broken = (what: string) =>
    new BackplaneError("malformed_response", `${plugin} answered with ${what}`);
  if (typeof answer !== "object" || answer === null) throw broken("no answer object");
  const { status, body, headers } = answer as { status?: unknown; body?: unknown; headers?: unknown };
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599) {
    throw broken("a status that is none from 200 to 599");
  }
  const checked: AdapterAnswer = { status };
  if (body !== undefined) {
    if (!isJson(body, 0)) throw broken("a body that JSON cannot spell");
    checked.body = body;
  }
  if (headers !== undefined) {
    if (typeof headers !== "object" || headers === null) throw broken("headers that are no object");
    for (const [name, value] of Object.entries(headers)) {
      if (!HEADER_NAME.test(name) || FORBIDDEN.has(name.toLowerCase()))
        throw broken("a header that it may not set");
      if (typeof value !== "string" || !HEADER_VALUE.test(value))
        throw broken("a header value that is no plain line");
    }
    checked.headers = { ...(headers as Record<string, string>) };
  }
  return checked;
}

function isJson(value: unknown, depth: number): value is Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth >= WIRE_LIMITS.json_depth) return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((item) => item === undefined || isJson(item, depth + 1));
}
