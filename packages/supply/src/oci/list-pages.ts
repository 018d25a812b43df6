/** Reads the pages of lists that registries send. */
import { isObject } from "@backplane/contract";
import { isTag } from "./reference.ts";
import { invalidResponse } from "./registry-errors.ts";
import type { SessionResponse } from "./registry-session.ts";

/** The next page of a list, only on the same origin. */
export function findNextPage(response: SessionResponse): URL | null {
  const next = readNextLink(response);
  return next?.origin === response.url.origin ? next : null;
}

/** Like `findNextPage`, but throws for a page on another origin, without which the list would be incomplete. */
export function requireNextPage(registry: string, response: SessionResponse): URL | null {
  const next = readNextLink(response);
  if (next !== null && next.origin !== response.url.origin)
    throw invalidResponse(registry, `continues a list on ${next.host}`);
  return next;
}

function readNextLink({ headers, url }: SessionResponse): URL | null {
  const link = /<([^>]{1,2048})>\s*;\s*rel="?next"?/i.exec(String(headers.link ?? ""))?.[1];
  return link !== undefined && URL.canParse(link, url) ? new URL(link, url) : null;
}

export function readTags(registry: string, bytes: Buffer): string[] {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8"));
  } catch {
    // Reported below.
  }
  // A registry written in Go sends null for an empty list.
  const tags = isObject(json) ? (json.tags ?? []) : null;
  if (!Array.isArray(tags)) throw invalidResponse(registry, "did not send a list of tags");
  return tags.filter((tag): tag is string => typeof tag === "string" && isTag(tag));
}
