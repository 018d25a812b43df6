/** The gateway's sign-ins at servers of bindings: for admins, and the address where the browser comes back. */
import { BackplaneError, toBackplaneError } from "@backplane/contract";
import {
  SignInBeginSchema,
  SignInCompleteSchema,
  SignInSchema,
  SignInStartedSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { renderSignInPage } from "../pages/sign-in-page.ts";
import { defineRoute, type Route } from "../route.ts";
import type { RouteDeps } from "./index.ts";
import { IdParams } from "./shapes.ts";

/** Its address holds the code, so nothing of it may travel on or be kept. */
const CALLBACK_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

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
        "Open authorization_url in a browser within ten minutes. It comes back to the gateway, or its address is handed to completeSignIn.",
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
      path: "/oauth/callback",
      operation_id: "signInCallback",
      summary: "Where the browser comes back from an authorization server",
      description: "The state in its address is good once, for the sign-in that it was made for.",
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
        const [status, page] = await answer(`http://gateway${request.raw.url ?? ""}`);
        return { status, text: page, type: "text/html; charset=utf-8", headers: CALLBACK_HEADERS };
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

  async function answer(redirect: string): Promise<[number, string]> {
    try {
      await kernel.signIns.complete(null, redirect);
      return [200, renderSignInPage("Signed in", "You can close this window.")];
    } catch (thrown) {
      const error = toBackplaneError(thrown);
      const known = error.code.startsWith("sign_in.") || error.code === "binding.not_found";
      const words = known ? `${error.message} ${error.fix}` : "Something went wrong; see the gateway's log.";
      return [known ? 400 : 500, renderSignInPage("Not signed in", words)];
    }
  }
}
