/** OAuth sign-ins of the gateway to the servers of bindings, and the pages that a browser opens for them. */
import { hash } from "node:crypto";
import { BackplaneError, toBackplaneError } from "@backplane/contract";
import {
  SignInBeginSchema,
  SignInCompleteSchema,
  SignInSchema,
  SignInStartedSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { renderSignInPage, SIGN_IN_PAGE_HEADERS } from "../pages/sign-in-page.ts";
import { IdParams } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

/** Each login has its own cookie, so that two logins at the same time do not conflict. */
const COOKIE_PREFIX = "backplane_login_";

const text = z.string().max(8_192).optional();

export function signInRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings/{id}/sign-in",
      operation_id: "getSignIn",
      summary: "Read the sign-in to the server of a binding",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "The sign-in, without its tokens.", schema: SignInSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.signIns.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:login",
      operation_id: "beginSignIn",
      summary: "Start a sign-in to the server of a binding",
      description:
        "Open start_url in a browser within ten minutes; the authorization server redirects it back to the gateway. If the browser cannot reach the gateway, open authorization_url and send the final URL to completeSignIn.",
      tag: "Bindings",
      auth: { scope: "admin" },
      params: IdParams,
      body: SignInBeginSchema,
      responses: { 200: { description: "The URLs to open in a browser.", schema: SignInStartedSchema } },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.signIns.begin(caller, params.id, body),
        headers: { "cache-control": "no-store" },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sign-ins:complete",
      operation_id: "completeSignIn",
      summary: "Complete a sign-in with the redirect URL",
      description:
        "For a browser that cannot reach the gateway. Only for the caller that started the sign-in.",
      tag: "Bindings",
      auth: { scope: "admin" },
      body: SignInCompleteSchema,
      responses: { 200: { description: "Signed in.", schema: SignInSchema } },
      handler: async ({ caller, body }) => ({
        status: 200,
        json: await kernel.signIns.complete(caller, body.redirect),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:logout",
      operation_id: "endSignIn",
      summary: "Sign out of the server of a binding",
      tag: "Bindings",
      auth: { scope: "admin" },
      params: IdParams,
      responses: { 204: { description: "Signed out." } },
      async handler({ caller, params }) {
        await kernel.signIns.end(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/oauth/start",
      operation_id: "startSignIn",
      summary: "Start a sign-in in a browser",
      description:
        "Redirects to the authorization server and sets a cookie that the callback requires. Only the first browser gets the cookie.",
      tag: "System",
      auth: "public",
      query: z.object({ ticket: z.string().max(256).default("") }),
      responses: {
        303: { description: "Redirects to the authorization server." },
        400: { description: "A page with the reason: the sign-in is unknown or expired.", type: "text/html" },
        500: { description: "A page: the sign-in could not be started.", type: "text/html" },
      },
      async handler({ query, request }) {
        try {
          const browser_secrets = readCookieSecrets(request.headers.cookie);
          const sign_in = await kernel.signIns.open(query.ticket, { browser_secrets });
          const { authorization_url: location, secret } = sign_in;
          const headers = { ...SIGN_IN_PAGE_HEADERS, location };
          if (secret === null) return { status: 303, empty: true, headers };
          return {
            status: 303,
            empty: true,
            headers: { ...headers, "set-cookie": setCookieHeader(secret, sign_in) },
          };
        } catch (thrown) {
          return errorPageResponse(thrown);
        }
      },
    }),
    defineRoute({
      method: "GET",
      path: "/oauth/callback",
      operation_id: "signInCallback",
      summary: "Receive the redirect of an authorization server",
      description: "The state in the URL is valid once, for its sign-in, in the browser that started it.",
      tag: "System",
      auth: "public",
      query: z.object({ state: text, code: text, iss: text, error: text, error_description: text }),
      responses: {
        200: { description: "A page: signed in.", type: "text/html" },
        400: { description: "A page with the reason: not signed in.", type: "text/html" },
        500: { description: "A page: not signed in.", type: "text/html" },
      },
      async handler({ request }) {
        // The raw URL: its parameters are compared byte by byte.
        const redirect = `http://gateway${request.raw.url ?? ""}`;
        try {
          const browser_secrets = readCookieSecrets(request.headers.cookie);
          await kernel.signIns.complete({ browser_secrets }, redirect);
          return pageResponse(200, "Signed in", "You can close this window.");
        } catch (thrown) {
          return errorPageResponse(thrown);
        }
      },
    }),
    defineRoute({
      method: "GET",
      path: "/client-metadata.json",
      operation_id: "clientMetadata",
      summary: "The OAuth client metadata of the gateway",
      tag: "System",
      auth: "public",
      responses: {
        200: { description: "A client ID metadata document.", schema: z.record(z.string(), z.json()) },
      },
      handler() {
        const document = kernel.signIns.buildClientDocument();
        if (document === null) {
          throw new BackplaneError("route.not_found", "This gateway has no public URL.", {
            fix: 'Set public_url = "https://…" under [listen] in backplane.toml.',
          });
        }
        return { status: 200, json: document };
      },
    }),
  ];
}

function errorPageResponse(thrown: unknown) {
  const error = toBackplaneError(thrown);
  const known = error.code.startsWith("sign_in.") || error.code === "binding.not_found";
  const message = known
    ? `${error.message} ${error.fix}`
    : "An unexpected error occurred. See the log of the gateway.";
  return pageResponse(known ? 400 : 500, "Not signed in", message);
}

function pageResponse(status: number, title: string, message: string) {
  const text = renderSignInPage(title, message);
  return { status, text, type: "text/html; charset=utf-8", headers: SIGN_IN_PAGE_HEADERS };
}

/** SameSite=Lax: the cookie must be sent when the authorization server redirects back. */
function setCookieHeader(
  secret: string,
  { secure, lasts_ms }: { secure: boolean; lasts_ms: number },
): string {
  const name = `${COOKIE_PREFIX}${hash("sha256", secret).slice(0, 16)}`;
  const age = Math.ceil(lasts_ms / 1_000);
  return `${name}=${secret}; Path=/oauth; HttpOnly; SameSite=Lax; Max-Age=${age}${secure ? "; Secure" : ""}`;
}

function readCookieSecrets(header: string | undefined): string[] {
  const parts = (header ?? "").split(";").map((part) => part.trim());
  return parts
    .filter((part) => part.startsWith(COOKIE_PREFIX))
    .map((part) => part.slice(part.indexOf("=") + 1));
}
