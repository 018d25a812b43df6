/** Chooses how a connection is served, by its listener and its first byte. */
import { decideEgress } from "../destinations/policy.ts";
import type { EgressState } from "./egress-state.ts";
import type { GatewayRoute } from "./gateway-route.ts";
import { createHttpProxy, ESTABLISHED, type HttpProxy, respondOnSocket } from "./http-proxy.ts";
import { peek } from "./peek.ts";
import type { ProxyConnection } from "./proxy-connection.ts";
import type { EgressListener, SandboxNetwork } from "./sandbox-network.ts";
import { answerSocks, readSocks } from "./socks.ts";
import { tunnel } from "./tunnel.ts";

const [SOCKS4, SOCKS5, TLS] = [4, 5, 22];

export function createConnectionHandler(
  state: EgressState,
  network: SandboxNetwork,
  route: GatewayRoute | null,
): (connection: ProxyConnection, listener: EgressListener) => void {
  const names = new Map(network.hosts.map(({ address, name }) => [address, name]));
  const httpProxy: HttpProxy = createHttpProxy(state.limits, route, (connection, target) => {
    const events = {
      connected: () => void connection.client.write(ESTABLISHED),
      failed: (reason: "unreachable" | "limit") =>
        respondOnSocket(
          connection,
          reason === "limit" ? "429 Too Many Requests" : "502 Bad Gateway",
          reason === "limit" ? "Too many connections.\n" : `${target.host} cannot be reached.\n`,
        ),
    };
    return tunnel(connection, target, events, (host) =>
      httpProxy.serve(connection, { kind: "host", target: host }),
    );
  });

  async function serveProxy(connection: ProxyConnection): Promise<void> {
    const first = await peek(connection.client, 1, (bytes) => ({ value: bytes[0]!, used: 0 }));
    if (first === null || connection.ended) return connection.end();
    if (first === SOCKS5) return serveSocks(connection);
    if (first === SOCKS4 || first === TLS) {
      connection.refuse("protocol.refused", first === TLS ? "TLS to the proxy" : "SOCKS4");
      return connection.end();
    }
    httpProxy.serve(connection, { kind: "proxy" });
  }

  async function serveSocks(connection: ProxyConnection): Promise<void> {
    const destination = await readSocks(connection);
    if (destination === null || connection.ended) return;
    const verdict = await decideEgress(state.policy, destination);
    if (verdict.kind === "refused") {
      connection.refuse(verdict.reason, verdict.detail);
      return answerSocks(connection, "forbidden");
    }
    if (connection.ended) return;
    if (verdict.kind === "unknown") return answerSocks(connection, "unreachable");
    if (verdict.kind === "gateway") {
      answerSocks(connection, "granted");
      return httpProxy.serve(connection, { kind: "gateway" });
    }
    const events = {
      connected: () => answerSocks(connection, "granted"),
      failed: (reason: "unreachable" | "limit") =>
        answerSocks(connection, reason === "limit" ? "failed" : "unreachable"),
    };
    await tunnel(connection, verdict.target, events, (target) =>
      httpProxy.serve(connection, { kind: "host", target }),
    );
  }

  /** The client resolved the name from /etc/hosts, so the dialed address identifies it. */
  async function serveNamed(connection: ProxyConnection, port: number): Promise<void> {
    const address = connection.client.localAddress ?? "";
    connection.destination = { host: names.get(address) ?? address, port };
    const verdict = await decideEgress(state.policy, connection.destination);
    if (verdict.kind === "refused") connection.refuse(verdict.reason, verdict.detail);
    if (connection.ended) return;
    if (verdict.kind !== "target") return connection.end();
    const events = { connected: () => {}, failed: () => connection.end() };
    await tunnel(connection, verdict.target, events, (target) =>
      httpProxy.serve(connection, { kind: "host", target }),
    );
  }

  return (connection, { role, port }) => {
    connection.client.pause();
    if (role === "proxy") connection.endOnError(serveProxy(connection));
    else if (role === "named") connection.endOnError(serveNamed(connection, port));
    else httpProxy.serve(connection, { kind: "gateway" });
  };
}
