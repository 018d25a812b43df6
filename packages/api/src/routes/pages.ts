/** The pages for browsers: chat, console, overview, API explorer and error codes, with their scripts and styles. */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { BackplaneError } from "@backplane/contract";
import { z } from "zod";
import { defineRoute, type Route, type RouteResponse } from "../http/route.ts";
import { requireWebAdapter } from "../http/web-adapter.ts";
import { renderErrorsPage } from "../pages/errors-page.ts";
import {
  createChatFiles,
  createConsoleFiles,
  createExplorerFiles,
  type FindFile,
} from "../pages/static-files.ts";
import type { RouteDeps } from "./route-deps.ts";

/** Pages load nothing from other origins and contain no inline scripts or styles. */
const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; media-src blob:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

const FILES: { path: string; file: string; type: string; operation_id: string; summary: string }[] = [
  {
    path: "/",
    file: "chat/index.html",
    type: "text/html",
    operation_id: "chatPage",
    summary: "The chat page",
  },
  {
    path: "/overview",
    file: "overview.html",
    type: "text/html",
    operation_id: "overviewPage",
    summary: "The overview page",
  },
  {
    path: "/explorer",
    file: "explorer.html",
    type: "text/html",
    operation_id: "explorerPage",
    summary: "The API explorer page",
  },
  {
    path: "/static/explorer.js",
    file: "explorer.js",
    type: "text/javascript",
    operation_id: "explorerScript",
    summary: "The script of the API explorer",
  },
  {
    path: "/static/overview.js",
    file: "overview.js",
    type: "text/javascript",
    operation_id: "overviewScript",
    summary: "The script of the overview page",
  },
  {
    path: "/static/backplane.css",
    file: "backplane.css",
    type: "text/css",
    operation_id: "styleSheet",
    summary: "The style sheet of all pages",
  },
];

export function pageRoutes({ kernel }: Pick<RouteDeps, "kernel">): Route[] {
  const chat_files = createChatFiles();
  const requireEnabled = () => requireWebAdapter(kernel.adapters);
  return [
    ...FILES.map((file) => staticRoute(file, file.path === "/" ? requireEnabled : () => {})),
    folderRoute("/static/chat/{file}", "chatFile", "Scripts and styles of the chat page", (name) => {
      requireEnabled();
      return chat_files(name);
    }),
    folderRoute("/static/explorer/{file}", "explorerFile", "Files of Swagger UI", createExplorerFiles()),
    ...consoleRoutes(),
    defineRoute({
      method: "GET",
      path: "/docs/errors",
      operation_id: "errorsPage",
      summary: "The page of error codes",
      tag: "System",
      auth: "public",
      responses: { 200: { description: "The page.", type: "text/html" } },
      handler: () => pageResponse(renderErrorsPage(), "text/html"),
    }),
  ];
}

/** The application reads the path in the browser and shows the matching page, so every path gets the same document. */
const CONSOLE_PATHS = [
  { path: "/console", operation_id: "consoleHome" },
  { path: "/console/{page}", operation_id: "consolePage" },
  { path: "/console/{page}/{id}", operation_id: "consoleDetail" },
];
/** A changed file has another name, because the name contains a hash of the content. */
const HASHED_NAME = /-[\w-]{8}\.(?:js|css)$/;

function consoleRoutes(): Route[] {
  const files = createConsoleFiles();
  const compressed = new Map<string, Buffer>();
  return [
    ...CONSOLE_PATHS.map(({ path, operation_id }) =>
      defineRoute({
        method: "GET",
        path,
        operation_id,
        summary: "The console",
        tag: "System",
        auth: "public",
        responses: { 200: { description: "The page.", type: "text/html" } },
        handler() {
          const text = files.index();
          if (text === null)
            throw new BackplaneError("route.not_found", "This installation contains no console.", {
              fix: "Build it with `npm run build` and restart the gateway.",
            });
          return pageResponse(text, "text/html");
        },
      }),
    ),
    defineRoute({
      method: "GET",
      path: "/static/console/{file}",
      operation_id: "consoleFile",
      summary: "Scripts and styles of the console",
      tag: "System",
      auth: "public",
      params: z.object({ file: z.string().max(128) }),
      responses: { 200: { description: "The file.", type: "text/javascript" } },
      handler({ params, request }) {
        const file = files.find(params.file);
        if (file === null) throw new BackplaneError("route.not_found");
        const headers = {
          ...PAGE_HEADERS,
          ...(HASHED_NAME.test(params.file)
            ? { "cache-control": "public, max-age=31536000, immutable" }
            : {}),
          vary: "accept-encoding",
        };
        const type = `${file.type}; charset=utf-8`;
        if (!/\bgzip\b/.test(String(request.headers["accept-encoding"] ?? "")))
          return { status: 200, text: file.text, type, headers };
        const bytes = compressed.get(params.file) ?? gzipSync(file.text);
        compressed.set(params.file, bytes);
        return {
          status: 200,
          content: (async function* () {
            yield bytes;
          })(),
          headers: {
            ...headers,
            "content-type": type,
            "content-encoding": "gzip",
            "content-length": String(bytes.length),
          },
        };
      },
    }),
  ];
}

function folderRoute(path: string, operation_id: string, summary: string, find: FindFile): Route {
  return defineRoute({
    method: "GET",
    path,
    operation_id,
    summary,
    tag: "System",
    auth: "public",
    params: z.object({ file: z.string().max(64) }),
    responses: { 200: { description: "The file.", type: "text/javascript" } },
    handler({ params }) {
      const file = find(params.file);
      if (file === null) throw new BackplaneError("route.not_found");
      return pageResponse(file.text, file.type);
    },
  });
}

/** The file is read at the first request and then cached. */
function staticRoute(
  { path, file, type, operation_id, summary }: (typeof FILES)[number],
  check: () => void,
): Route {
  let text: string | undefined;
  return defineRoute({
    method: "GET",
    path,
    operation_id,
    summary,
    tag: "System",
    auth: "public",
    responses: { 200: { description: "The file.", type } },
    handler() {
      check();
      text ??= readFileSync(new URL(`../../static/${file}`, import.meta.url), "utf8");
      return pageResponse(text, type);
    },
  });
}

function pageResponse(text: string, type: string): RouteResponse {
  return { status: 200, text, type: `${type}; charset=utf-8`, headers: PAGE_HEADERS };
}
