/** Every bound of the way out; what is counted up is counted per invocation. */
export interface EgressLimits {
  /** Connections that lead somewhere at one time; and sockets, led anywhere yet or not. */
  connections: number;
  sockets: number;
  total_connections: number;
  /** Towards the world, and from it. */
  bytes_out: number;
  bytes_in: number;
  /** One request head, one ClientHello. */
  head_bytes: number;
  /** Until it is known where a connection wants to go. */
  head_ms: number;
  connect_ms: number;
  idle_ms: number;
  total_ms: number;
  /** Refusals kept word for word; the rest are counted. */
  refusals: number;
}

export const DEFAULT_EGRESS_LIMITS: EgressLimits = {
  connections: 64,
  sockets: 256,
  total_connections: 10_000,
  bytes_out: 1024 ** 3,
  bytes_in: 4 * 1024 ** 3,
  head_bytes: 16 * 1024,
  head_ms: 10_000,
  connect_ms: 10_000,
  idle_ms: 120_000,
  total_ms: 3_600_000,
  refusals: 256,
};
