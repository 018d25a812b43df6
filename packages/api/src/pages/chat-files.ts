/** The chat page's files: a closed list, so that a name in the address is never a path. */
import { readFileSync } from "node:fs";
import { ERROR_CODES } from "@backplane/contract";

export interface PageFile {
  text: string;
  type: string;
}

export const CHAT_FILES = [
  "api.js",
  "approvals.js",
  "chat.css",
  "composer.js",
  "connection.js",
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

const TYPES: Record<string, string> = { js: "text/javascript", css: "text/css", json: "application/json" };

/** Each is read when it is first asked for, then kept. */
export function createChatFiles(): (name: string) => PageFile | null {
  const kept = new Map<string, PageFile>();
  const known: ReadonlySet<string> = new Set(CHAT_FILES);
  return (name) => {
    if (!known.has(name)) return null;
    const file = kept.get(name) ?? { text: textOf(name), type: TYPES[name.split(".").at(-1)!]! };
    kept.set(name, file);
    return file;
  };
}

function textOf(name: string): string {
  if (name === "remedies.json") return remedies();
  return readFileSync(new URL(`../../static/chat/${name}`, import.meta.url), "utf8");
}

/** What to do about each code, for errors that reach the page by event and so without their fix. */
function remedies(): string {
  const lines = Object.entries(ERROR_CODES).map(([code, { remedy }]) => [code, remedy]);
  return JSON.stringify(Object.fromEntries(lines));
}
