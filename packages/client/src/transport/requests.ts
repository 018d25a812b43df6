/** Requests in the forms that most operations use. */
import type { Http, HttpRequest } from "./http.ts";

type Query = HttpRequest["query"];

export interface CallOptions {
  signal?: AbortSignal;
  /** Makes a create request safe to retry for 24 hours. */
  idempotency_key?: string;
}

export function createRequests(http: Http) {
  const post = <T>(
    path: string,
    json: unknown,
    call: CallOptions = {},
    query?: Query,
    extra: Pick<HttpRequest, "progress"> = {},
  ) =>
    http.json<T>({
      method: "POST",
      path,
      json,
      headers: idempotencyHeader(call),
      signal: call.signal,
      ...(query && { query }),
      ...extra,
    });
  return {
    get: <T>(path: string, query?: Query, call: CallOptions = {}) =>
      http.json<T>({ method: "GET", path, ...(query && { query }), signal: call.signal }),
    post,
    /** For a route that reports its progress. */
    postWithProgress: <T>(path: string, json: unknown, call: CallOptions = {}) =>
      post<T>(path, json, call, undefined, { progress: true }),
    remove: (path: string) => http.empty({ method: "DELETE", path }),
  };
}

export function idempotencyHeader(call: CallOptions): HttpRequest["headers"] {
  return { "idempotency-key": call.idempotency_key };
}

/** Without a generation, the write is unconditional. */
export function ifMatchHeader(generation: number | undefined): HttpRequest["headers"] {
  return { "if-match": generation === undefined ? undefined : `"${generation}"` };
}

export function pathSegment(id: string): string {
  return encodeURIComponent(id);
}
