/**
 * Host and Origin. A page of another site that makes its name point at this machine (DNS rebinding) still sends
 * its own name in Host, and a page of another origin sends its own Origin; both are turned away before any
 * credential is looked at.
 */
import { BackplaneError } from "@backplane/contract";
import type { IncomingHttpHeaders } from "node:http";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

export interface HostCheck {
  /** Throws auth.host or auth.origin. */
  check(headers: IncomingHttpHeaders): void;
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
    check(headers) {
      const host = headers.host;
      if (host === undefined || !known(host)) throw new BackplaneError("auth.host");
      if (headers.origin !== undefined && !sameOrigin(headers)) throw new BackplaneError("auth.origin");
    },
    sameOrigin,
  };
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, "");
}
