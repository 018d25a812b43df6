/** Connects to one of the addresses that were checked, in their order, and never to anything else. */
import { connect, isIP, type Socket } from "node:net";
import type { Clock } from "@backplane/ports";

export interface DialOptions {
  clock: Clock;
  timeout_ms: number;
  /** Told of every socket at its birth, so that closing ends attempts too. */
  born(socket: Socket): void;
  closed(): boolean;
}

/** Null: none answers. */
export async function dial(
  addresses: readonly string[],
  port: number,
  options: DialOptions,
): Promise<Socket | null> {
  const until = options.clock.monotonic() + options.timeout_ms;
  for (const address of addresses) {
    const left = until - options.clock.monotonic();
    if (left <= 0 || options.closed()) return null;
    const socket = await attempt(address, port, left, options);
    if (socket !== null) return socket;
  }
  return null;
}

function attempt(host: string, port: number, left: number, options: DialOptions): Promise<Socket | null> {
  // A name here would be resolved again, past the check.
  if (isIP(host) === 0) return Promise.resolve(null);
  return new Promise((resolve) => {
    const socket = connect({ host, port, noDelay: true, allowHalfOpen: true, autoSelectFamily: false });
    options.born(socket);
    const late = options.clock.after(left, () => socket.destroy());
    socket.once("connect", () => {
      late.stop();
      resolve(socket);
    });
    socket.once("close", () => {
      late.stop();
      resolve(null);
    });
  });
}
