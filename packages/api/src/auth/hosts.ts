/**
 * Checks Host and Origin before any credential. A page from another site whose name resolves to this machine (DNS
 * rebinding) still sends its own name in Host, and a page from another origin sends its own Origin. A request must
 * specify exactly one host: with two Host headers, or with a target such as `http://other/path` in addition to the Host
 * header, a proxy in front may have checked a different name than this check does.
 */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { BackplaneError } from "@backplane/contract";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The parts of a request that specify its host. */
type HostedRequest = Pick<IncomingMessage, "headers" | "rawHeaders" | "url">;

export interface HostCheck {
  /** Throws auth.host or auth.origin. */
  check(request: HostedRequest): void;
  /** Whether Origin is present and is the origin of this gateway. */
  sameOrigin(headers: IncomingHttpHeaders): boolean;
}

/**
 * A configured name with a port allows that port only; a name without a port allows any, because a proxy or tunnel may
 * change the port.
 */
export function createHostCheck(configured: readonly string[]): HostCheck {
  const allowed = new Set([...LOOPBACK, ...configured.map((name) => name.toLowerCase())]);
  const isAllowed = (host: string) => {
    const lower = host.toLowerCase();
    return allowed.has(lower) || allowed.has(withoutPort(lower));
  };
  const sameOrigin = (headers: IncomingHttpHeaders) => {
    const { origin, host } = headers;
    return origin !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
  };
  return {
    check({ headers, rawHeaders, url = "" }) {
      const host = headers.host;
      if (host === undefined || !isAllowed(host)) throw new BackplaneError("auth.host");
      if (hasSecondHost(rawHeaders))
        throw new BackplaneError("auth.host", "The request has more than one Host header.", {
          fix: "Send exactly one Host header.",
        });
      if (!isOriginForm(url) && authorityOf(url) !== host.toLowerCase())
        throw new BackplaneError(
          "auth.host",
          "The target of the request names a different host than its Host header.",
          {
            fix: "Send only the path as the target, as in GET /v1/status.",
          },
        );
      if (headers.origin !== undefined && !sameOrigin(headers)) throw new BackplaneError("auth.origin");
    },
    sameOrigin,
  };
}

/** `headers` holds only the first Host header, so the raw list is searched. */
function hasSecondHost(rawHeaders: readonly string[]): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count > 1;
}

/** `*` is the target of an OPTIONS request for the whole server. */
function isOriginForm(url: string): boolean {
  return url.startsWith("/") || url === "*";
}

/** The authority of `http://user@host:port/path`; null when the target is not an absolute URL. */
function authorityOf(url: string): string | null {
  return /^https?:\/\/([^/?#]*)/.exec(url.toLowerCase())?.[1] ?? null;
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, "");
}
