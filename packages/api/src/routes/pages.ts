/** What a browser opens: the chat, the overview, the explorer, the error list, and the one-time sign-in link. */
import { readFileSync } from "node:fs";
import { BackplaneError } from "@backplane/contract";
import { z } from "zod";
import { CODE_TTL_MS, sessionCookie, setCookie } from "../auth/sign-in.ts";
import { createChatFiles } from "../pages/chat-files.ts";
import { renderErrorsPage } from "../pages/errors-page.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import type { RouteDeps } from "./index.ts";

/** Nothing from elsewhere, nothing inline: what a page shows can come from this gateway only. */
const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

const FILES: { path: string; file: string; type: string; operation_id: string; summary: string }[] = [
  { path: "/", file: "chat/index.html", type: "text/html", operation_id: "chatPage", summary: "The chat" },
  {
    path: "/overview",
    file: "start.html",
    type: "text/html",
    operation_id: "overviewPage",
    summary: "The state of the gateway at a glance",
  },
  {
    path: "/explorer",
    file: "explorer.html",
    type: "text/html",
    operation_id: "explorerPage",
    summary: "The API explorer",
  },
  {
    path: "/static/explorer.js",
    file: "explorer.js",
    type: "text/javascript",
    operation_id: "explorerScript",
    summary: "The explorer's program",
  },
  {
    path: "/static/start.js",
    file: "start.js",
    type: "text/javascript",
    operation_id: "overviewScript",
    summary: "The overview's program",
  },
  {
    path: "/static/backplane.css",
    file: "backplane.css",
    type: "text/css",
    operation_id: "styleSheet",
    summary: "The look of all pages",
  },
];

export function pageRoutes({ sign_in, secure, clock }: RouteDeps): Route[] {
  const chatFile = createChatFiles();
  return [
    ...FILES.map(staticRoute),
    defineRoute({
      method: "GET",
      path: "/static/chat/{file}",
      operation_id: "chatFile",
      summary: "The chat's programs and its look",
      tag: "System",
      auth: "public",
      params: z.object({ file: z.string().max(64) }),
      responses: { 200: { description: "A file of the gateway itself.", type: "text/javascript" } },
      handler({ params }) {
        const found = chatFile(params.file);
        if (found === null) throw new BackplaneError("route.not_found");
        return page(found.text, found.type);
      },
    }),
    defineRoute({
      method: "GET",
      path: "/docs/errors",
      operation_id: "errorsPage",
      summary: "Every error code, with its remedy",
      tag: "System",
      auth: "public",
      responses: { 200: { description: "A page.", type: "text/html" } },
      handler: () => page(renderErrorsPage(), "text/html"),
    }),
    defineRoute({
      method: "GET",
      path: "/login",
      operation_id: "signIn",
      summary: "Turn a one-time code into the console's cookie",
      tag: "System",
      auth: "public",
      query: z.object({ code: z.string().max(256).default("") }),
      responses: { 303: { description: "Signed in; goes to the chat." } },
      handler({ query }) {
        const cookie = sign_in.redeem(query.code);
        if (cookie === null) throw new BackplaneError("auth.link_used");
        return {
          status: 303,
          empty: true,
          headers: { location: "/", "set-cookie": setCookie(cookie, secure), "cache-control": "no-store" },
        };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/login-links",
      operation_id: "createLoginLink",
      summary: "Make a one-time sign-in link for the console",
      tag: "System",
      auth: { host: true },
      responses: {
        201: {
          description: "Opens once, within five minutes.",
          schema: z.object({ path: z.string(), expires_at: z.iso.datetime() }),
        },
      },
      handler: () => ({
        status: 201,
        json: {
          path: `/login?code=${sign_in.mintCode()}`,
          expires_at: new Date(clock.now() + CODE_TTL_MS).toISOString(),
        },
        headers: { "cache-control": "no-store" },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/logout",
      operation_id: "signOut",
      summary: "End the console's session",
      tag: "System",
      auth: { any: true },
      responses: { 204: { description: "Signed out." } },
      handler({ request }) {
        const cookie = sessionCookie(request.headers.cookie);
        if (cookie !== null) sign_in.end(cookie);
        return { status: 204, empty: true, headers: { "set-cookie": setCookie("", secure) } };
      },
    }),
  ];
}

/** Read when first asked for, then kept. */
function staticRoute({ path, file, type, operation_id, summary }: (typeof FILES)[number]): Route {
  let text: string | undefined;
  return defineRoute({
    method: "GET",
    path,
    operation_id,
    summary,
    tag: "System",
    auth: "public",
    responses: { 200: { description: "A file of the gateway itself.", type } },
    handler() {
      text ??= readFileSync(new URL(`../../static/${file}`, import.meta.url), "utf8");
      return page(text, type);
    },
  });
}

function page(text: string, type: string): Answer {
  return { status: 200, text, type: `${type}; charset=utf-8`, headers: PAGE_HEADERS };
}
