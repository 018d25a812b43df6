/**
 * An entry of the route table. Validation, authorization and the OpenAPI document are all derived from the same value,
 * so they always match what is served.
 */
import type { DelegationScope, KeyScope } from "@backplane/contract";
import type { Caller, Operation } from "@backplane/ports";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";

declare module "fastify" {
  interface FastifyRequest {
    /** Set when the request was authenticated; null on public routes. */
    caller: Caller | null;
  }
}

/**
 * `public` needs no credential. `host` requires the admin, by token or console session, because the route affects more
 * than one org. `any` accepts every credential except a delegated token.
 */
export type RouteAuth =
  | "public"
  /** `x_api_key`: without an Authorization header the credential may be in the header x-api-key. */
  | { scope: KeyScope; delegated?: DelegationScope | "any"; x_api_key?: true }
  | { host: true }
  | { any: true };

export const TAGS = [
  "Packages",
  "Bindings",
  "Discovery",
  "Invocations",
  "Approvals",
  "Policy",
  "Secrets",
  "Keys",
  "Sessions",
  "Chains",
  "Runs",
  "Models",
  "Compactions",
  "Deliveries",
  "Plugins",
  "Workspaces",
  "Adapters",
  "MCP",
  "Events",
  "System",
] as const;

export interface RouteContext<P, Q, B, A> {
  /** Null on public routes only. */
  caller: A extends "public" ? null : Caller;
  params: P;
  query: Q;
  body: B;
  request: FastifyRequest;
  reply: FastifyReply;
  /** Set on a route with `progress` if the client requested an event stream. */
  operation?: Operation;
  /** The header If-Match on a route with `if_match`; undefined on all others. */
  if_match: string | undefined;
}

type Headers = Record<string, string>;

/** The result of a handler. `hijacked` means that the handler has written to the socket itself. */
export type RouteResponse =
  | { status: number; json: unknown; headers?: Headers }
  | { status: number; text: string; type: string; headers?: Headers }
  | { status: number; content: AsyncIterable<Uint8Array>; headers: Headers }
  | { status: number; empty: true; headers?: Headers }
  | { hijacked: true };

export interface Route<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
  A extends RouteAuth = RouteAuth,
> {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** In the syntax of OpenAPI: `/v1/plugin-bindings/{id}:validate`. */
  path: string;
  operation_id: string;
  summary: string;
  description?: string;
  tag: (typeof TAGS)[number];
  auth: A;
  params?: P;
  query?: Q;
  body?: B;
  /** Translates the spellings of other formats before the body is checked. */
  translate?: (body: unknown) => unknown;
  /** Media types besides JSON that this route accepts as a stream. */
  uploads?: readonly string[];
  /** The largest body, if it differs from that of the other routes. */
  body_bytes?: number;
  /** The form of errors, if it is not the error envelope. */
  error_schema?: z.ZodType;
  /** Request headers that the handler reads, by name, with their description. */
  headers?: Readonly<Record<string, string>>;
  /** Whether the route honors Idempotency-Key. */
  idempotent?: boolean;
  /** Whether the resource has an ETag. Reads then honor If-None-Match. */
  etag?: boolean;
  /** Whether the route honors If-Match. Otherwise the handler does not get the header. */
  if_match?: boolean;
  /**
   * A client that prefers `text/event-stream` to JSON receives the progress and then the body, and cancels the work by
   * disconnecting.
   */
  progress?: boolean;
  responses: Record<number, { description: string; schema?: z.ZodType; type?: string }>;
  handler(
    context: RouteContext<z.output<P>, z.output<Q>, z.output<B>, A>,
  ): Promise<RouteResponse> | RouteResponse;
}

/** Types the handler from the schemas, then erases the type parameters so that all routes fit into one list. */
export function defineRoute<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  const A extends RouteAuth = RouteAuth,
>(route: Route<P, Q, B, A>): Route {
  return route as unknown as Route;
}

/** The path in Fastify's syntax. `{id}:verb` needs a pattern because ids may contain `::`; other colons are escaped. */
export function fastifyPath(path: string): string {
  return path
    .replace(/(\w):(?=\w)/g, "$1::")
    .replace(/\{(\w+)\}:/g, ":$1(^.+)::")
    .replace(/\{(\w+)\}/g, ":$1");
}
