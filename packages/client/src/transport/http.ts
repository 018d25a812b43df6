/**
 * Requests over fetch. An error response becomes the BackplaneError that the gateway threw, with its code, details and
 * request id. A missing or incomplete response, or one that is not from a gateway, becomes daemon.unreachable.
 */
import {
  BackplaneError,
  ERROR_CODES,
  type ErrorDetails,
  isErrorCode,
  type ProgressEvent,
} from "@backplane/contract";
import { readSse } from "./sse.ts";

export interface HttpOptions {
  url: string;
  token?: string | undefined;
  /** Extra headers for every request, such as Backplane-Project. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
  /**
   * Called at the start of every request. `end` is called when the response has been read, a stream is open, or the
   * request has failed.
   */
  observe?: (request: Pick<HttpRequest, "method" | "path" | "progress">) => RequestObserver;
}

export interface RequestObserver {
  /** Aborts the request. */
  signal?: AbortSignal;
  progress(event: ProgressEvent): void;
  end(): void;
}

export interface HttpRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  json?: unknown;
  upload?: NonNullable<RequestInit["body"]> | AsyncIterable<Uint8Array>;
  headers?: Record<string, string | undefined>;
  signal?: AbortSignal | undefined;
  /** Whether the route reports its progress. Such a route stops its work when this client disconnects. */
  progress?: boolean;
}

export interface Http {
  json<T>(request: HttpRequest): Promise<T>;
  empty(request: HttpRequest): Promise<void>;
  /** Returns the response after its status was checked; its body has not been read. */
  open(request: HttpRequest): Promise<Response>;
}

export function createHttp(options: HttpOptions): Http {
  const base = options.url.replace(/\/+$/, "");
  const send = options.fetch ?? fetch;

  async function open(request: HttpRequest): Promise<Response> {
    const observer = options.observe?.(request);
    try {
      return await fetchChecked(request, joinSignals(request.signal, observer?.signal));
    } finally {
      observer?.end();
    }
  }

  async function fetchChecked(request: HttpRequest, signal: AbortSignal | undefined): Promise<Response> {
    const init: RequestInit & { duplex?: "half" } = {
      method: request.method,
      headers: buildHeaders(request),
    };
    if (signal !== undefined) init.signal = signal;
    if (request.upload !== undefined) {
      init.body = request.upload as NonNullable<RequestInit["body"]>;
      init.duplex = "half";
    } else if (request.json !== undefined) init.body = JSON.stringify(request.json);
    let response: Response;
    try {
      response = await send(base + request.path + formatQuery(request.query), init);
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw unreachableError(base, cause);
    }
    if (response.ok) return response;
    throw await toError(response, request.path);
  }

  /** A gateway or a proxy that does not support progress responds with JSON. */
  async function readBody(response: Response, onProgress: (event: ProgressEvent) => void): Promise<unknown> {
    if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true)
      return await response.json();
    for await (const { event, data } of readSse(response.body as unknown as AsyncIterable<Uint8Array>)) {
      if (event === "progress") onProgress(JSON.parse(data) as ProgressEvent);
      if (event === "result") return JSON.parse(data);
      if (event === "error") throw toResponseError(data, null);
    }
    throw new Error("the event stream ended without a result");
  }

  function buildHeaders(request: HttpRequest): Record<string, string> {
    const accept = request.progress === true ? "text/event-stream, application/json" : "application/json";
    const headers: Record<string, string> = { accept, ...options.headers };
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
      const observer = options.observe?.(request);
      const signal = joinSignals(request.signal, observer?.signal);
      try {
        const response = await fetchChecked(request, signal);
        return (await readBody(response, (event) => observer?.progress(event))) as T;
      } catch (cause) {
        if (signal?.aborted || cause instanceof BackplaneError) throw cause;
        throw incompleteResponseError(base, cause);
      } finally {
        observer?.end();
      }
    },
    async empty(request) {
      const response = await open(request);
      await response.body?.cancel();
    },
  };
}

function unreachableError(base: string, cause: unknown): BackplaneError {
  const { code } = ((cause as { cause?: unknown } | null)?.cause ?? {}) as { code?: unknown };
  const reason = typeof code === "string" ? UNREACHABLE_REASONS[code] : undefined;
  const message = `No gateway responds at ${base}${reason === undefined ? "" : `: ${reason}`}.`;
  return new BackplaneError("daemon.unreachable", message, { cause });
}

function incompleteResponseError(base: string, cause: unknown): BackplaneError {
  const message = `The response of ${base} is incomplete or is not JSON.`;
  return new BackplaneError("daemon.unreachable", message, { cause });
}

const UNREACHABLE_REASONS: Record<string, string> = {
  ECONNREFUSED: "no program listens on this port",
  ENOTFOUND: "the host name is unknown",
  EAI_AGAIN: "the host name cannot be resolved at the moment",
  ETIMEDOUT: "the connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "the connection timed out",
  ECONNRESET: "the connection was closed",
  UND_ERR_SOCKET: "the connection was closed",
  ERR_SSL_WRONG_VERSION_NUMBER: "the server does not speak HTTPS; use http://",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "the server does not speak HTTPS; use http://",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed",
  CERT_HAS_EXPIRED: "its certificate has expired",
};

/** A response without an error envelope is not from a gateway, but from a proxy or another program on the port. */
async function toError(response: Response, path: string): Promise<BackplaneError> {
  return toResponseError(await response.text().catch(() => ""), response.status, path);
}

/**
 * The id, name or key in the path that was not found: `bind_1` in /v1/plugin-bindings/bind_1:rollback. Undefined if the
 * error is about something that is not in the path. The gateway's own not-found errors do not contain it.
 */
function findRequested(code: string, path: string): string | undefined {
  const [, , list = "", id = ""] = path.split(/[/?]/);
  const is_requested = id !== "" && code === NOT_FOUND_CODES[list];
  return is_requested ? decodeURIComponent(id.replace(/:[a-z-]+$/, "")) : undefined;
}

/** The error code by the second segment of the path, which the id follows. */
const NOT_FOUND_CODES: Record<string, string> = {
  "allow-rules": "allow_rule.not_found",
  approvals: "approval.not_found",
  "approval-grants": "approval.not_found",
  catalog: "tool.not_found",
  chains: "chain.not_found",
  config: "config.not_found",
  deliveries: "delivery.not_found",
  executions: "execution.not_found",
  invocations: "invocation.not_found",
  keys: "key.not_found",
  "llm-providers": "provider.not_found",
  marketplace: "marketplace.not_found",
  "plugin-bindings": "binding.not_found",
  "plugin-packages": "package.not_found",
  plugins: "plugin.not_found",
  runs: "run.not_found",
  secrets: "secret.not_found",
  sessions: "session.not_found",
  "trusted-keys": "trusted_key.not_found",
  workspaces: "workspace.not_found",
};

/** `status` is null for an error that arrived as an event. */
function toResponseError(text: string, status: number | null, path = ""): BackplaneError {
  const error_body = readEnvelope(text);
  if (error_body === null && status === null)
    return new BackplaneError("internal", "The gateway reported an error that this client cannot read.");
  if (error_body === null)
    return new BackplaneError(
      "daemon.unreachable",
      `The server at this address is not a Backplane gateway (status ${status}).`,
      { details: { status } },
    );
  const { fix, ...details } = error_body.details ?? {};
  const code = isErrorCode(error_body.code) ? error_body.code : "internal";
  const requested = findRequested(code, path);
  return new BackplaneError(code, error_body.message, {
    details: {
      ...details,
      ...(requested === undefined ? {} : { requested }),
      request_id: error_body.request_id,
      status: status ?? ERROR_CODES[code].http,
    },
    retryable: error_body.retryable === true,
    ...(typeof fix === "string" ? { fix } : {}),
  });
}

function joinSignals(...signals: readonly (AbortSignal | undefined)[]): AbortSignal | undefined {
  const defined = signals.filter((signal) => signal !== undefined);
  return defined.length > 1 ? AbortSignal.any(defined) : defined[0];
}

interface ErrorBody {
  code: string;
  message: string;
  retryable?: unknown;
  details?: ErrorDetails;
  request_id: string;
}

function readEnvelope(text: string): ErrorBody | null {
  try {
    const { error } = JSON.parse(text) as { error?: ErrorBody };
    return typeof error?.code === "string" && typeof error.message === "string" ? error : null;
  } catch {
    return null;
  }
}

function formatQuery(query: HttpRequest["query"]): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) params.set(name, String(value));
  return params.size === 0 ? "" : `?${params.toString()}`;
}
