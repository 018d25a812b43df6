/** Limits of egress. Bytes and `total_connections` are counted per invocation. */
export interface EgressLimits {
  /** Open connections to a destination, and open sockets with or without a destination. */
  connections: number;
  sockets: number;
  total_connections: number;
  /** Bytes sent to and received from destinations. */
  bytes_out: number;
  bytes_in: number;
  /** Size of one request head or one ClientHello. */
  head_bytes: number;
  /** Time until the destination of a connection is known. */
  head_ms: number;
  connect_ms: number;
  /** Time without traffic, and age, after which a connection is ended. */
  idle_ms: number;
  total_ms: number;
  /** Refusals that are kept in full; the rest are only counted. */
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
