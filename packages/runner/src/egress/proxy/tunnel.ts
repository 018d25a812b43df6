/**
 * A tunnel to a checked target. The first bytes of the client are inspected: TLS must name the requested host, and
 * HTTP is handed to the HTTP proxy, which checks each request. Known limitation: TLS hides which name of an allowed
 * server is used (domain fronting), and anything can be sent to an allowed host.
 */
import type { Socket } from "node:net";
import type { Target } from "../destinations/policy.ts";
import { classifyFirstBytes, type FirstBytes } from "./first-bytes.ts";
import { peek } from "./peek.ts";
import type { ProxyConnection } from "./proxy-connection.ts";
import { pump } from "./pump.ts";

export interface TunnelEvents {
  connected(): void;
  /** No address accepts a connection, or the connection limit is reached. */
  failed(reason: "unreachable" | "limit"): void;
}

const TOO_LONG = { kind: "refused", reason: "request.malformed", detail: "too long" } as const;

/** `serveHttp` takes over the client if it speaks HTTP, as it must on port 80. */
export async function tunnel(
  connection: ProxyConnection,
  target: Target,
  events: TunnelEvents,
  serveHttp: (target: Target) => void,
): Promise<void> {
  // The session may have been held since the destination was resolved.
  await connection.state.whenReleased();
  if (connection.ended) return;
  // The HTTP proxy dials for each request itself.
  if (target.port === 80) {
    events.connected();
    return serveHttp(target);
  }
  if (!connection.acquireSlot()) return events.failed("limit");
  const upstream = await connection.state.dial(connection, target);
  if (connection.ended) return;
  if (upstream === null) {
    connection.releaseSlot();
    return events.failed("unreachable");
  }
  events.connected();
  // With TLS on 443 the client speaks first. On other ports the server may.
  if (target.port !== 443) pumpIn(connection, upstream);
  const first = await readFirst(connection, target);
  if (connection.ended) return;
  if (first === null || first.kind === "refused") {
    if (first !== null) connection.refuse(first.reason, first.detail);
    return connection.end();
  }
  if (first.kind === "http") {
    connection.discardUpstream(upstream);
    connection.releaseSlot();
    return serveHttp(target);
  }
  if (target.port === 443) pumpIn(connection, upstream);
  pump(connection.client, upstream, connection.countOut, connection.state);
}

function readFirst(connection: ProxyConnection, target: Target): Promise<FirstBytes | null> {
  return peek(connection.client, connection.state.limits.head_bytes, (bytes, full) => {
    const value = classifyFirstBytes(bytes, target, target.any_name) ?? (full ? TOO_LONG : undefined);
    return value === undefined ? undefined : { value, used: 0 };
  });
}

function pumpIn(connection: ProxyConnection, upstream: Socket): void {
  pump(upstream, connection.client, connection.countIn, connection.state);
  connection.closeWith(upstream);
}
