/**
 * The way out of a sandbox. It has no network of its own: it holds listeners that were opened inside and handed out,
 * and for each connection the gateway decides by the process's grant, resolves, checks, dials and counts
 * (sandbox.net, delegation.reach). Nothing that belongs to one session is seen by another.
 */
import { randomBytes } from "node:crypto";
import type { Server, Socket } from "node:net";
import type { Clock, HostAnswer, HostRequest } from "@backplane/ports";
import { type AddressRule, publicAndForeign } from "./destinations/address.ts";
import { allowList } from "./destinations/allow-list.ts";
import type { Policy } from "./destinations/policy.ts";
import { type Refusal, RefusalRecord } from "./destinations/refusals.ts";
import { type Resolver, systemResolver } from "./destinations/resolve.ts";
import { hostFetch } from "./gateway-requests/host-fetch.ts";
import { Border } from "./proxy/egress-state.ts";
import { type GatewayDoor, gatewayDoor } from "./proxy/gateway-route.ts";
import { DEFAULT_EGRESS_LIMITS, type EgressLimits } from "./proxy/limits.ts";
import { type EgressGrant, type EgressListener, type WayIn, wayIn } from "./proxy/sandbox-network.ts";
import { createReception } from "./proxy/serve-connection.ts";

export interface EgressOptions {
  clock: Clock;
  limits?: Partial<EgressLimits>;
  /** `host:port` that the operator opens although it is no public address; the grant must allow it all the same. */
  operator_allows?: readonly string[];
  /** Where plugins with a delegated scope find the gateway, asked for at each start; null: nowhere. */
  gateway?: () => { base_url: string; certificate: string | null } | null;
  resolve?: Resolver;
  forbidden?: AddressRule;
}

/** Of one process, which serves one invocation or, pooled, several with the same grant. */
interface EgressRequest {
  grant: EgressGrant;
  /** Told of each refusal as it happens. */
  refused?: (refusal: Refusal) => void;
  /** No call is in flight yet: everything waits for `hold(false)`. */
  held?: boolean;
}

export interface EgressSession extends WayIn {
  /** What requests to the gateway carry that came by these listeners. */
  proof: string;
  /** One of `listeners`, as sandbox-init handed it out. */
  attach(listener: EgressListener, server: Server): void;
  /** Whether everything waits because no call is in flight. */
  hold(held: boolean): void;
  /** Another invocation begins: bytes, connections and refusals count from nothing again. */
  renew(): void;
  /** Word for word up to a bound; `counts.refused` has them all. */
  refusals(): Refusal[];
  counts(): { bytes_in: number; bytes_out: number; connections: number; sockets: number; refused: number };
  /** Ends every connection and lets the listeners go, so that the namespace can end. */
  close(): Promise<void>;
}

export interface Egress {
  open: (request: EgressRequest) => EgressSession;
  /** For code inside the gateway. */
  fetch: (request: HostRequest) => Promise<HostAnswer>;
}

export function createEgress(options: EgressOptions): Egress {
  const limits = { ...DEFAULT_EGRESS_LIMITS, ...options.limits };
  const forbidden = options.forbidden ?? publicAndForeign();
  const resolve = options.resolve ?? systemResolver(limits.connect_ms);
  const operator_allows = new Set((options.operator_allows ?? []).map((place) => place.toLowerCase()));
  return {
    fetch: (request) => {
      const gateway = options.gateway?.() ?? null;
      const names = gateway === null ? new Set<string>() : gatewayDoor(gateway, null).names;
      const policy = { operator_allows, gateway: { names, reachable: false }, resolve, forbidden };
      return hostFetch({ clock: options.clock, connect_ms: limits.connect_ms, policy }, request);
    },
    open: ({ grant, refused = () => {}, held = false }) => {
      const gateway = options.gateway?.() ?? null;
      const way = wayIn(grant, gateway);
      const proof = randomBytes(32).toString("base64url");
      const door = gateway === null ? null : gatewayDoor(gateway, way.gateway_url, proof);
      const policy: Policy = {
        allowed: allowList(grant.network === "none" ? [] : grant.allowed_domains),
        operator_allows,
        gateway: { names: door?.names ?? new Set(), reachable: way.gateway_url !== null },
        resolve,
        forbidden,
      };
      const record = new RefusalRecord(limits.refusals, options.clock, refused);
      return sessionOf(way, new Border(policy, limits, options.clock, record, held), door, proof);
    },
  };
}

function sessionOf(way: WayIn, border: Border, door: GatewayDoor | null, proof: string): EgressSession {
  const receive = createReception(border, way, door);
  const servers = new Set<Server>();
  const accept = (listener: EgressListener, socket: Socket) => {
    const passage = border.enter(socket);
    if (passage !== null) receive(passage, listener);
  };
  return {
    ...way,
    proof,
    hold: (held) => border.hold(held),
    renew: () => border.renew(),
    attach: (listener, server) => {
      servers.add(server);
      server.on("error", () => {});
      server.on("connection", (socket) => accept(listener, socket));
      if (border.closed) server.close();
    },
    refusals: () => border.refusals.list(),
    counts: () => ({
      bytes_in: border.meter.in,
      bytes_out: border.meter.out,
      connections: border.total,
      sockets: border.sockets,
      refused: border.refusals.count,
    }),
    close: async () => {
      border.close();
      const gone = [...servers].map((server) => new Promise<void>((done) => server.close(() => done())));
      servers.clear();
      await Promise.all(gone);
    },
  };
}
