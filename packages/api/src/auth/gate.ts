/**
 * The checks that every request passes before its body is read, whatever handles it: a route, an adapter or an upgrade
 * to a WebSocket. Order: host and origin, state of the gateway, credential, scope.
 */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { BackplaneError } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { RouteAuth } from "../http/route.ts";
import type { Authenticator } from "./authenticate.ts";
import { authorize } from "./authorize.ts";
import type { HostCheck } from "./hosts.ts";

export interface Gate {
  hosts: HostCheck;
  authenticator: Authenticator;
  started(): boolean;
  stopping(): boolean;
}

/** Throws auth.host, auth.origin, gateway_starting or gateway_stopping. */
export function checkGate(gate: Gate, request: IncomingMessage): void {
  gate.hosts.check(request);
  if (!gate.started()) throw new BackplaneError("gateway_starting");
  if (gate.stopping()) throw new BackplaneError("gateway_stopping");
}

/** `checkGate` for a request that Fastify handles, whether or not it matches a route. */
export function checkRequestGate(gate: Gate, request: FastifyRequest, reply: FastifyReply): void {
  reply.header("x-request-id", request.id);
  // A client must not reuse a connection that is about to close.
  if (gate.stopping()) reply.header("connection", "close");
  checkGate(gate, request.raw);
}

/**
 * Sets `request.caller`. Synchronous for the admin token, so that the Fastify hook calls back and creates no promise
 * (benchmark http.invoke.cpu).
 */
export function authenticateRequest(
  { authenticator }: Gate,
  request: FastifyRequest,
  auth: Exclude<RouteAuth, "public">,
): void | Promise<void> {
  const { headers } = request.raw;
  const credential_headers = "x_api_key" in auth && auth.x_api_key === true ? withApiKey(headers) : headers;
  const caller = authenticator.authenticate(credential_headers, request.method !== "GET");
  if (caller instanceof Promise) return caller.then((known) => setCaller(request, known, auth));
  setCaller(request, caller, auth);
}

/** Anthropic's clients send their API key in the header x-api-key. */
export function withApiKey(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const key = headers["x-api-key"];
  if (headers.authorization !== undefined || typeof key !== "string") return headers;
  return { ...headers, authorization: `Bearer ${key}` };
}

function setCaller(request: FastifyRequest, caller: Caller, auth: Exclude<RouteAuth, "public">): void {
  authorize(caller, auth);
  request.caller = caller;
}
