/**
 * Host and Origin. A page of another site that makes its name point at this machine (DNS rebinding) still sends
 * its own name in Host, and a page of another origin sends its own Origin; both are turned away before any
 * credential is looked at. A request has one host name: with two Host headers, or with a target such as
 * `http://other/path` beside the Host header, a proxy in front may have checked the name that we do not look at.
 */
import { BackplaneError } from "@backplane/contract";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The parts of a request that name the host it is for. */
type HostedRequest = Pick<IncomingMessage, "headers" | "rawHeaders" | "url">;

export interface HostCheck {
  /** Throws auth.host or auth.origin. */
  check(request: HostedRequest): void;
  /** Whether Origin is present and names this gateway itself. */
  sameOrigin(headers: IncomingHttpHeaders): boolean;
}

/** An entry with a port holds for that port alone; without one for any, as a proxy or a tunnel may change it. */
export function createHostCheck(configured: readonly string[]): HostCheck {
  const allowed = new Set([...LOOPBACK, ...configured.map((name) => name.toLowerCase())]);
  const known = (host: string) => {
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
      if (host === undefined || !known(host)) throw new BackplaneError("auth.host");
      if (hasSecondHost(rawHeaders))
        throw new BackplaneError("auth.host", "The request has more than one Host header.", {
          fix: "Send exactly one Host header.",
        });
      if (!isOriginForm(url) && authorityOf(url) !== host.toLowerCase())
        throw new BackplaneError(
          "auth.host",
          "The target of the request names another host than its Host header.",
          {
            fix: "Send the path alone as the target, as in GET /v1/status.",
          },
        );
      if (headers.origin !== undefined && !sameOrigin(headers)) throw new BackplaneError("auth.origin");
    },
    sameOrigin,
  };
}

/** Node keeps only the first one in `headers`. */
function hasSecondHost(rawHeaders: readonly string[]): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count > 1;
}

/** `*` is the target of OPTIONS for the server as a whole. */
function isOriginForm(url: string): boolean {
  return url.startsWith("/") || url === "*";
}

/** The host and port of `http://host:port/path`, with any user name before it; null when the target has no such form. */
function authorityOf(url: string): string | null {
  return /^https?:\/\/([^/?#]*)/.exec(url.toLowerCase())?.[1] ?? null;
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, "");
}
