/** The few forms that most operations have. A create carries its idempotency key; an id in a path is escaped. */
import type { Http, HttpRequest } from "./http.ts";
import type { CallOptions } from "./types.ts";

type Query = HttpRequest["query"];

export function operationsOf(http: Http) {
  return {
    get: <T>(path: string, query?: Query, call: CallOptions = {}) =>
      http.json<T>({ method: "GET", path, ...(query && { query }), signal: call.signal }),
    post: <T>(path: string, json: unknown, call: CallOptions = {}, query?: Query) =>
      http.json<T>({
        method: "POST",
        path,
        json,
        headers: creating(call),
        signal: call.signal,
        ...(query && { query }),
      }),
    remove: (path: string) => http.empty({ method: "DELETE", path }),
  };
}

export function creating(call: CallOptions): HttpRequest["headers"] {
  return { "idempotency-key": call.idempotency_key };
}

/** Undefined: whatever is there is replaced. */
export function ifMatch(generation: number | undefined): HttpRequest["headers"] {
  return { "if-match": generation === undefined ? undefined : `"${generation}"` };
}

export function part(id: string): string {
  return encodeURIComponent(id);
}
