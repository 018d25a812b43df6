/** Connects to the first of the checked addresses that accepts, and never to any other. */
import { connect, isIP, type Socket } from "node:net";
import type { Clock } from "@backplane/ports";

export interface DialOptions {
  clock: Clock;
  timeout_ms: number;
  /** Called for each socket when it is created, so that the caller can also end pending attempts. */
  onSocket(socket: Socket): void;
  closed(): boolean;
}

/** Null if no address accepts. */
export async function dial(
  addresses: readonly string[],
  port: number,
  options: DialOptions,
): Promise<Socket | null> {
  const until = options.clock.monotonic() + options.timeout_ms;
  for (const address of addresses) {
    const remaining_ms = until - options.clock.monotonic();
    if (remaining_ms <= 0 || options.closed()) return null;
    const socket = await attempt(address, port, remaining_ms, options);
    if (socket !== null) return socket;
  }
  return null;
}

function attempt(
  host: string,
  port: number,
  remaining_ms: number,
  options: DialOptions,
): Promise<Socket | null> {
  // Node would resolve a name again, without the address check.
  if (isIP(host) === 0) return Promise.resolve(null);
  return new Promise((resolve) => {
    const socket = connect({ host, port, noDelay: true, allowHalfOpen: true, autoSelectFamily: false });
    options.onSocket(socket);
    const timer = options.clock.after(remaining_ms, () => socket.destroy());
    socket.once("connect", () => {
      timer.stop();
      resolve(socket);
    });
    socket.once("close", () => {
      timer.stop();
      resolve(null);
    });
  });
}
