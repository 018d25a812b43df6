/** The files that pages load. Only files from a fixed list are served, so a name in a URL is never used as a path. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { ERROR_CODES } from "@backplane/contract";

interface StaticFile {
  text: string;
  type: string;
}

export const CHAT_FILES = [
  "api.js",
  "approvals.js",
  "chat.css",
  "composer.js",
  "connection.js",
  "content.js",
  "conversation.css",
  "dom.js",
  "main.js",
  "markdown.js",
  "narrow.css",
  "notices.js",
  "remedies.json",
  "settings.js",
  "sidebar.js",
  "theme.js",
  "transcript.js",
  "view.js",
] as const;

/** Copied from Swagger UI by scripts/build-explorer.ts. */
const EXPLORER_FILES = ["swagger-ui-bundle.js", "swagger-ui.css"] as const;

const TYPES: Record<string, string> = { js: "text/javascript", css: "text/css", json: "application/json" };

/** Returns null for a name that is not in the list. */
export type FindFile = (name: string) => StaticFile | null;

export function createChatFiles(): FindFile {
  return cachedFiles(CHAT_FILES, (name) =>
    name === "remedies.json"
      ? buildRemedies()
      : readFileSync(new URL(`../../static/chat/${name}`, import.meta.url), "utf8"),
  );
}

export function createExplorerFiles(): FindFile {
  return cachedFiles(EXPLORER_FILES, (name) =>
    readFileSync(new URL(`../../dist/explorer/${name}`, import.meta.url), "utf8"),
  );
}

export interface ConsoleFiles {
  /** The page that loads the application; null if it was not built. */
  index(): string | null;
  /** Scripts and styles. Their names contain a hash of their content, except for the script of the color scheme. */
  find: FindFile;
}

const CONSOLE_FOLDER = new URL("../../dist/console/", import.meta.url);

/** Written by scripts/build-console.ts. The folder is listed once, when the first file is requested. */
export function createConsoleFiles(folder: URL = CONSOLE_FOLDER): ConsoleFiles {
  const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
  let find: FindFile | undefined;
  let index: string | undefined;
  return {
    index() {
      if (index === undefined && existsSync(new URL("index.html", folder))) index = read("index.html");
      return index ?? null;
    },
    find(name) {
      if (find === undefined) {
        const names = existsSync(folder) ? readdirSync(folder) : [];
        find = cachedFiles(
          names.filter((name) => /\.(?:js|css)$/.test(name)),
          read,
        );
      }
      return find(name);
    },
  };
}

/** Each file is read at its first request. */
function cachedFiles(names: readonly string[], read: (name: string) => string): FindFile {
  const cache = new Map<string, StaticFile>();
  const known: ReadonlySet<string> = new Set(names);
  return (name) => {
    if (!known.has(name)) return null;
    const file = cache.get(name) ?? { text: read(name), type: TYPES[name.split(".").at(-1)!]! };
    cache.set(name, file);
    return file;
  };
}

/** The remedy of each error code. An error in an event has no fix, so the page looks up the remedy by code. */
function buildRemedies(): string {
  const remedies = Object.entries(ERROR_CODES).map(([code, { remedy }]) => [code, remedy]);
  return JSON.stringify(Object.fromEntries(remedies));
}
