/** The gateway's sign-ins at servers of bindings: for admins, and the address where the browser comes back. */
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
import { renderSignInPage } from "../pages/oauth-page.ts";
import { IdParams } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

/** Its address holds the code, so nothing of it may travel on or be kept. */
const CALLBACK_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

/** One for each login, so that two at a time do not take each other's. */
const COOKIE = "backplane_login_";

const text = z.string().max(8_192).optional();

export function signInRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings/{id}/sign-in",
      operation_id: "getSignIn",
      summary: "Read whether the gateway is signed in to a binding's server",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "The sign-in, without any token.", schema: SignInSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.signIns.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:login",
      operation_id: "beginSignIn",
      summary: "Begin to sign in to a binding's server",
      description:
        "Open start_url in a browser within ten minutes; it comes back to the gateway. Where a browser cannot reach the gateway, open authorization_url and hand the address at which it ends to completeSignIn.",
      tag: "Bindings",
      auth: { scope: "admin" },
      params: IdParams,
      body: SignInBeginSchema,
      responses: { 200: { description: "Where to send the browser.", schema: SignInStartedSchema } },
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
      summary: "Hand over the address that the browser was sent to",
      description: "For a browser that cannot reach the gateway. Only by who began the sign-in.",
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
      summary: "Forget the sign-in at a binding's server",
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
      summary: "Where a browser begins a sign-in",
      description:
        "Sends it on to the authorization server, with a cookie without which it could not come back. Only the first browser gets one.",
      tag: "System",
      auth: "public",
      query: z.object({ ticket: z.string().max(256).default("") }),
      responses: {
        303: { description: "On to the authorization server." },
        400: { description: "No such sign-in, as a page that says why.", type: "text/html" },
        500: { description: "Not begun, as a page.", type: "text/html" },
      },
      async handler({ query, request }) {
        try {
          const browser = secretsIn(request.headers.cookie);
          const opened = await kernel.signIns.open(query.ticket, { browser });
          const { authorization_url: location, secret } = opened;
          const headers = { ...CALLBACK_HEADERS, location };
          if (secret === null) return { status: 303, empty: true, headers };
          return {
            status: 303,
            empty: true,
            headers: { ...headers, "set-cookie": cookieOf(secret, opened) },
          };
        } catch (thrown) {
          return refusal(thrown);
        }
      },
    }),
    defineRoute({
      method: "GET",
      path: "/oauth/callback",
      operation_id: "signInCallback",
      summary: "Where the browser comes back from an authorization server",
      description:
        "The state in its address is good once, for the sign-in that it was made for, in the browser that began it.",
      tag: "System",
      auth: "public",
      query: z.object({ state: text, code: text, iss: text, error: text, error_description: text }),
      responses: {
        200: { description: "Signed in, as a page.", type: "text/html" },
        400: { description: "Not signed in, as a page that says why.", type: "text/html" },
        500: { description: "Not signed in, as a page.", type: "text/html" },
      },
      async handler({ request }) {
        // As it came: what stands in it is compared letter by letter.
        const redirect = `http://gateway${request.raw.url ?? ""}`;
        try {
          await kernel.signIns.complete({ browser: secretsIn(request.headers.cookie) }, redirect);
          return page(200, "Signed in", "You can close this window.");
        } catch (thrown) {
          return refusal(thrown);
        }
      },
    }),
    defineRoute({
      method: "GET",
      path: "/client-metadata.json",
      operation_id: "clientMetadata",
      summary: "What the gateway says of itself to authorization servers",
      tag: "System",
      auth: "public",
      responses: {
        200: { description: "A client id metadata document.", schema: z.record(z.string(), z.json()) },
      },
      handler() {
        const document = kernel.signIns.clientDocument();
        if (document === null) {
          throw new BackplaneError("route.not_found", "this gateway has no public address", {
            fix: 'Set public_url = "https://…" under [listen] in backplane.toml.',
          });
        }
        return { status: 200, json: document };
      },
    }),
  ];
}

function refusal(thrown: unknown) {
  const error = toBackplaneError(thrown);
  const known = error.code.startsWith("sign_in.") || error.code === "binding.not_found";
  const words = known ? `${error.message} ${error.fix}` : "Something went wrong; see the gateway's log.";
  return page(known ? 400 : 500, "Not signed in", words);
}

function page(status: number, title: string, words: string) {
  const text = renderSignInPage(title, words);
  return { status, text, type: "text/html; charset=utf-8", headers: CALLBACK_HEADERS };
}

/** Lax: the browser comes back from another site, and has to show it then. */
function cookieOf(secret: string, { secure, lasts_ms }: { secure: boolean; lasts_ms: number }): string {
  const name = `${COOKIE}${hash("sha256", secret).slice(0, 16)}`;
  const age = Math.ceil(lasts_ms / 1_000);
  return `${name}=${secret}; Path=/oauth; HttpOnly; SameSite=Lax; Max-Age=${age}${secure ? "; Secure" : ""}`;
}

function secretsIn(header: string | undefined): string[] {
  const parts = (header ?? "").split(";").map((part) => part.trim());
  return parts.filter((part) => part.startsWith(COOKIE)).map((part) => part.slice(part.indexOf("=") + 1));
}
