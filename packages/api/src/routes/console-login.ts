/** Login to the console with a one-time link, and logout. */
import { BackplaneError } from "@backplane/contract";
import { z } from "zod";
import { CODE_TTL_MS, readSessionCookie, sessionCookieHeader } from "../auth/console-login.ts";
import { defineRoute, type Route } from "../http/route.ts";
import { renderSignInPage, SIGN_IN_PAGE_HEADERS } from "../pages/sign-in-page.ts";
import type { RouteDeps } from "./route-deps.ts";

export function consoleLoginRoutes({ console_login, secure, clock }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/login",
      operation_id: "signIn",
      summary: "Log in to the console with a one-time code",
      tag: "System",
      auth: "public",
      query: z.object({ code: z.string().max(256).default("") }),
      responses: {
        303: { description: "Logged in; redirects to the chat." },
        401: {
          description:
            "The link was used or has expired: a page for a browser, the error auth.link_used for a program.",
          type: "text/html",
        },
      },
      handler({ query, request }) {
        const cookie = console_login.redeem(query.code);
        if (cookie === null) {
          const error = new BackplaneError("auth.link_used");
          // Programs get the same error as JSON.
          if (!(request.headers.accept ?? "").includes("text/html")) throw error;
          return {
            status: 401,
            text: renderSignInPage("Not logged in", `${error.message} ${error.fix}`.replaceAll("`", "")),
            type: "text/html; charset=utf-8",
            headers: SIGN_IN_PAGE_HEADERS,
          };
        }
        return {
          status: 303,
          empty: true,
          headers: {
            location: "/",
            "set-cookie": sessionCookieHeader(cookie, secure),
            "cache-control": "no-store",
          },
        };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/login-links",
      operation_id: "createLoginLink",
      summary: "Create a one-time login link for the console",
      tag: "System",
      auth: { host: true },
      responses: {
        201: {
          description: "The link works once and expires after five minutes.",
          schema: z.object({ path: z.string(), expires_at: z.iso.datetime() }),
        },
      },
      handler: () => ({
        status: 201,
        json: {
          path: `/login?code=${console_login.mintCode()}`,
          expires_at: new Date(clock.now() + CODE_TTL_MS).toISOString(),
        },
        headers: { "cache-control": "no-store" },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/logout",
      operation_id: "signOut",
      summary: "Log out of the console",
      tag: "System",
      auth: { any: true },
      responses: { 204: { description: "Logged out." } },
      handler({ request }) {
        const cookie = readSessionCookie(request.headers.cookie);
        if (cookie !== null) console_login.end(cookie);
        return { status: 204, empty: true, headers: { "set-cookie": sessionCookieHeader("", secure) } };
      },
    }),
  ];
}
