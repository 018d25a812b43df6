/**
 * Egress of sandboxed processes. The network of a sandbox is not connected to any other; its process connects to
 * listeners that sandbox-init opened inside and passed to the gateway. For each connection the gateway applies the
 * grant of the process, resolves and checks the address, dials it and counts the traffic (sandbox.net,
 * delegation.reach). Sessions share no state.
 */
import { randomBytes } from "node:crypto";
import type { Server, Socket } from "node:net";
import type { Clock, HostRequest, HostResponse } from "@backplane/ports";
import { type AddressRule, publicExceptOwn } from "./destinations/address.ts";
import { allowList } from "./destinations/allow-list.ts";
import { type DirectAttempt, refusalOf } from "./destinations/direct-attempt.ts";
import type { EgressPolicy } from "./destinations/policy.ts";
import { type Refusal, RefusalLog } from "./destinations/refusals.ts";
import { type Resolver, systemResolver } from "./destinations/resolve.ts";
import { hostFetch } from "./gateway-requests/host-fetch.ts";
import { EgressState } from "./proxy/egress-state.ts";
import { type GatewayRoute, gatewayRoute } from "./proxy/gateway-route.ts";
import { DEFAULT_EGRESS_LIMITS, type EgressLimits } from "./proxy/limits.ts";
import {
  type EgressGrant,
  type EgressListener,
  type SandboxNetwork,
  sandboxNetwork,
} from "./proxy/sandbox-network.ts";
import { createConnectionHandler } from "./proxy/serve-connection.ts";

export interface EgressOptions {
  clock: Clock;
  limits?: Partial<EgressLimits>;
  /**
   * `host:port` or `host:*` values that the operator allows although they are not public. The grant must allow them as
   * well.
   */
  operator_allows?: readonly string[];
  /**
   * The address at which plugins with a delegated scope reach the gateway, read at each start; null if they
   * cannot.
   */
  gateway?: () => { base_url: string; certificate: string | null } | null;
  resolve?: Resolver;
  forbidden?: AddressRule;
}

/** Requests the egress of one process, which serves one invocation or, if it is pooled, several with the same grant. */
interface EgressRequest {
  grant: EgressGrant;
  /** Called for each refusal. */
  refused?: (refusal: Refusal) => void;
  /** True if no call is in flight yet: connections wait for `hold(false)`. */
  held?: boolean;
}

export interface EgressSession extends SandboxNetwork {
  /** Added to requests to the gateway that come through these listeners. */
  proof: string;
  /** Accepts connections on one of `listeners`, which sandbox-init opened. */
  attach(listener: EgressListener, server: Server): void;
  /** Records attempts that ended inside the sandbox. For `unlisted` attempts only the number is known. */
  recordDirect(attempt: DirectAttempt | { unlisted: number }): void;
  /** Pauses all connections while no call is in flight; resumes them if `held` is false. */
  hold(held: boolean): void;
  /** Resets the counts of bytes, connections and refusals for the next invocation. */
  resetCounts(): void;
  /** The first refusals, up to a limit; `counts.refused` counts all. */
  refusals(): Refusal[];
  counts(): { bytes_in: number; bytes_out: number; connections: number; sockets: number; refused: number };
  /** Ends all connections and closes the listeners, so that the network namespace can be freed. */
  close(): Promise<void>;
}

export interface Egress {
  open: (request: EgressRequest) => EgressSession;
  /** Sends a request of code inside the gateway. */
  fetch: (request: HostRequest) => Promise<HostResponse>;
}

export function createEgress(options: EgressOptions): Egress {
  const limits = { ...DEFAULT_EGRESS_LIMITS, ...options.limits };
  const forbidden = options.forbidden ?? publicExceptOwn();
  const resolve = options.resolve ?? systemResolver(limits.connect_ms);
  const operator_allows = new Set(
    (options.operator_allows ?? []).map((destination) => destination.toLowerCase()),
  );
  return {
    fetch: (request) => {
      const gateway = options.gateway?.() ?? null;
      const names = gateway === null ? new Set<string>() : gatewayRoute(gateway, null).names;
      const policy = { operator_allows, gateway: { names, reachable: false }, resolve, forbidden };
      return hostFetch({ clock: options.clock, connect_ms: limits.connect_ms, policy }, request);
    },
    open: ({ grant, refused = () => {}, held = false }) => {
      const gateway = options.gateway?.() ?? null;
      const network = sandboxNetwork(grant, gateway);
      const proof = randomBytes(32).toString("base64url");
      const route = gateway === null ? null : gatewayRoute(gateway, network.gateway_url, proof);
      const policy: EgressPolicy = {
        allowed: allowList(grant.network === "none" ? [] : grant.allowed_domains),
        operator_allows,
        gateway: { names: route?.names ?? new Set(), reachable: network.gateway_url !== null },
        resolve,
        forbidden,
      };
      const refusal_log = new RefusalLog(limits.refusals, options.clock, refused);
      return createSession(
        network,
        new EgressState(policy, limits, options.clock, refusal_log, held),
        route,
        proof,
      );
    },
  };
}

function createSession(
  network: SandboxNetwork,
  state: EgressState,
  route: GatewayRoute | null,
  proof: string,
): EgressSession {
  const receive = createConnectionHandler(state, network, route);
  const servers = new Set<Server>();
  const accept = (listener: EgressListener, socket: Socket) => {
    const connection = state.accept(socket);
    if (connection !== null) receive(connection, listener);
  };
  return {
    ...network,
    proof,
    hold: (held) => state.hold(held),
    resetCounts: () => state.resetCounts(),
    attach: (listener, server) => {
      servers.add(server);
      server.on("error", () => {});
      server.on("connection", (socket) => accept(listener, socket));
      if (state.closed) server.close();
    },
    recordDirect: (attempt) => {
      if ("unlisted" in attempt) {
        state.refusals.add({ host: "", port: 0 }, "direct.unlisted", undefined, attempt.unlisted);
        return;
      }
      const { destination, reason } = refusalOf(attempt);
      state.refusals.add(destination, reason, undefined, attempt.count);
    },
    refusals: () => state.refusals.list(),
    counts: () => ({
      bytes_in: state.meter.in,
      bytes_out: state.meter.out,
      connections: state.total,
      sockets: state.sockets,
      refused: state.refusals.count,
    }),
    close: async () => {
      state.close();
      const closed_servers = [...servers].map(
        (server) => new Promise<void>((done) => server.close(() => done())),
      );
      servers.clear();
      await Promise.all(closed_servers);
    },
  };
}
