/** How long the suite waits. A wait is extended while a busy machine gives the plugin process little CPU time. */
import { SIDE_TIMEOUTS, VAI_TIMEOUTS } from "@backplane/contract";

export interface ConformanceLimits {
  hello_ms: number;
  cancel_grace_ms: number;
  /** For the exit after a shutdown, the end of stdin or a frame that ends the connection. */
  exit_ms: number;
  handshake_ms: number;
  teardown_ms: number;
}

export const CONFORMANCE_LIMITS: ConformanceLimits = {
  hello_ms: VAI_TIMEOUTS.hello_ms,
  cancel_grace_ms: VAI_TIMEOUTS.cancel_grace_ms,
  exit_ms: VAI_TIMEOUTS.shutdown_grace_ms,
  handshake_ms: SIDE_TIMEOUTS.handshake_ms,
  teardown_ms: SIDE_TIMEOUTS.teardown_ms,
};
