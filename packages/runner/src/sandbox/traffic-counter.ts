/**
 * Reports whether the network inside a sandbox was used. The kernel counts the packets of the namespace; reading the
 * counter takes a few microseconds and saves the request to PID 1 for a call that did not use the network.
 */
import { closeSync, openSync, readSync } from "node:fs";

export interface TrafficCounter {
  /** Changes with every packet. Null if it cannot be read. */
  read(): string | null;
  /** An open counter keeps the network namespace alive. */
  close(): void;
}

/** `pid` is a process in the network namespace. */
export function openTrafficCounter(pid: number): TrafficCounter {
  const bytes = Buffer.allocUnsafe(1_024);
  let fd = openOrNull(`/proc/${pid}/net/dev`);
  return {
    read: () => {
      try {
        return fd === null ? null : bytes.toString("latin1", 0, readSync(fd, bytes, 0, bytes.length, 0));
      } catch {
        return null;
      }
    },
    close: () => {
      if (fd !== null) closeSync(fd);
      fd = null;
    },
  };
}

function openOrNull(path: string): number | null {
  try {
    return openSync(path, "r");
  } catch {
    return null;
  }
}
