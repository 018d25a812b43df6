/**
 * One route of the table. Validation, authorisation and the OpenAPI document are all read from the same value,
 * so none of them can drift from what is served.
 */
import type { DelegationScope, KeyScope } from "@backplane/contract";
import type { Caller } from "@backplane/kernel";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";

/** `public` needs no credential. `host` is open to the admin token alone, because it reaches beyond one org. */
export type RouteAuth =
  | "public"
  | { scope: KeyScope; delegated?: DelegationScope | "any" }
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
  "Compactions",
  "Plugins",
  "Workspaces",
  "Adapters",
  "MCP",
  "Events",
  "System",
] as const;

export interface Context<P, Q, B, A> {
  /** Null on public routes only. */
  caller: A extends "public" ? null : Caller;
  params: P;
  query: Q;
  body: B;
  request: FastifyRequest;
  reply: FastifyReply;
}

type Headers = Record<string, string>;

/** What a handler answers. `json` is written once, here and nowhere else; `hijacked` wrote to the socket itself. */
export type Answer =
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
  /** As OpenAPI writes it: `/v1/plugin-bindings/{id}:validate`. */
  path: string;
  operation_id: string;
  summary: string;
  description?: string;
  tag: (typeof TAGS)[number];
  auth: A;
  params?: P;
  query?: Q;
  body?: B;
  /** Media types beside JSON that this route takes as a stream. */
  uploads?: readonly string[];
  /** A create: honours Idempotency-Key. */
  idempotent?: boolean;
  /** Takes If-Match or If-None-Match and answers an ETag. */
  etag?: boolean;
  responses: Record<number, { description: string; schema?: z.ZodType; type?: string }>;
  handler(context: Context<z.output<P>, z.output<Q>, z.output<B>, A>): Promise<Answer> | Answer;
}

/** Keeps the handler typed by its schemas, then forgets the types so that routes fit into one list. */
export function defineRoute<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  const A extends RouteAuth = RouteAuth,
>(route: Route<P, Q, B, A>): Route {
  return route as unknown as Route;
}

/** `{id}:verb` needs a pattern, since ids may themselves contain `::`; after a plain word a colon is a colon. */
export function fastifyPath(path: string): string {
  return path
    .replace(/(\w):(?=\w)/g, "$1::")
    .replace(/\{(\w+)\}:/g, ":$1(^.+)::")
    .replace(/\{(\w+)\}/g, ":$1");
}
