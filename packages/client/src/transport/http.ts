/**
 * Requests over fetch. An error response becomes the BackplaneError that the gateway threw, with its code, details and
 * request id. No response at all becomes daemon.unreachable.
 */
import { BackplaneError, type ErrorDetails, isErrorCode } from "@backplane/contract";

export interface HttpOptions {
  url: string;
  token?: string | undefined;
  /** Extra headers for every request, such as Backplane-Project. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
}

export interface HttpRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  json?: unknown;
  upload?: NonNullable<RequestInit["body"]> | AsyncIterable<Uint8Array>;
  headers?: Record<string, string | undefined>;
  signal?: AbortSignal | undefined;
}

export interface Http {
  json<T>(request: HttpRequest): Promise<T>;
  empty(request: HttpRequest): Promise<void>;
  /** The open response, after its status was checked. */
  open(request: HttpRequest): Promise<Response>;
}

export function createHttp(options: HttpOptions): Http {
  const base = options.url.replace(/\/+$/, "");
  const send = options.fetch ?? fetch;

  async function open(request: HttpRequest): Promise<Response> {
    const init: RequestInit & { duplex?: "half" } = { method: request.method, headers: headersOf(request) };
    if (request.signal !== undefined) init.signal = request.signal;
    if (request.upload !== undefined) {
      init.body = request.upload as NonNullable<RequestInit["body"]>;
      init.duplex = "half";
    } else if (request.json !== undefined) init.body = JSON.stringify(request.json);
    let response: Response;
    try {
      response = await send(base + request.path + queryOf(request.query), init);
    } catch (cause) {
      if (request.signal?.aborted) throw cause;
      throw unreachable(base, cause);
    }
    if (response.ok) return response;
    throw await toError(response);
  }

  function headersOf(request: HttpRequest): Record<string, string> {
    const headers: Record<string, string> = { accept: "application/json", ...options.headers };
    if (options.token !== undefined) headers.authorization = `Bearer ${options.token}`;
    if (request.json !== undefined) headers["content-type"] = "application/json";
    if (request.upload !== undefined) headers["content-type"] = "application/octet-stream";
    for (const [name, value] of Object.entries(request.headers ?? {}))
      if (value !== undefined) headers[name] = value;
    return headers;
  }

  return {
    open,
    async json<T>(request: HttpRequest) {
      const response = await open(request);
      try {
        return (await response.json()) as T;
      } catch (cause) {
        if (request.signal?.aborted) throw cause;
        throw unreachable(base, cause);
      }
    },
    async empty(request) {
      const response = await open(request);
      await response.body?.cancel();
    },
  };
}

export function unreachable(base: string, cause: unknown): BackplaneError {
  return new BackplaneError("daemon.unreachable", `No gateway responds at ${base}.`, { cause });
}

/** A response without an error envelope is not from a gateway, but from a proxy or another program on the port. */
async function toError(response: Response): Promise<BackplaneError> {
  const text = await response.text().catch(() => "");
  const sent = readEnvelope(text);
  if (sent === null)
    return new BackplaneError(
      "daemon.unreachable",
      `The server at this address is not a Backplane gateway (status ${response.status}).`,
      { details: { status: response.status } },
    );
  const { fix, ...details } = sent.details ?? {};
  return new BackplaneError(isErrorCode(sent.code) ? sent.code : "internal", sent.message, {
    details: { ...details, request_id: sent.request_id, status: response.status },
    retryable: sent.retryable === true,
    ...(typeof fix === "string" ? { fix } : {}),
  });
}

interface SentError {
  code: string;
  message: string;
  retryable?: unknown;
  details?: ErrorDetails;
  request_id: string;
}

function readEnvelope(text: string): SentError | null {
  try {
    const { error } = JSON.parse(text) as { error?: SentError };
    return typeof error?.code === "string" && typeof error.message === "string" ? error : null;
  } catch {
    return null;
  }
}

function queryOf(query: HttpRequest["query"]): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) params.set(name, String(value));
  return params.size === 0 ? "" : `?${params.toString()}`;
}
