/**
 * Reads the beginning of a stream until `read` returns a value. Unused bytes are put back into the socket. If there is
 * no value, all bytes are dropped.
 */
import type { Socket } from "node:net";

export interface PeekResult<T> {
  value: T;
  /** Bytes that are consumed. */
  used: number;
}

/** Null if the socket ended, or if `read` returned nothing for `max` bytes with `full` set. */
export function peek<T>(
  socket: Socket,
  max: number,
  read: (bytes: Buffer, full: boolean) => PeekResult<T> | undefined,
): Promise<T | null> {
  return new Promise((resolve) => {
    // The buffer doubles, so that a client that sends single bytes does not cause a copy for each.
    let buffer = Buffer.alloc(512);
    let length = 0;
    const settle = (value: T | null) => {
      socket.removeListener("data", onData);
      socket.removeListener("end", onEnd);
      socket.removeListener("close", onEnd);
      socket.pause();
      resolve(value);
    };
    const onEnd = () => settle(null);
    const onData = (chunk: Buffer) => {
      if (length + chunk.length > buffer.length) {
        const larger = Buffer.alloc(2 * (length + chunk.length));
        buffer.copy(larger, 0, 0, length);
        buffer = larger;
      }
      chunk.copy(buffer, length);
      length += chunk.length;
      const result = read(buffer.subarray(0, Math.min(length, max)), length >= max);
      if (result === undefined && length < max) return;
      settle(result?.value ?? null);
      if (result !== undefined && result.used < length) socket.unshift(buffer.subarray(result.used, length));
    };
    socket.on("data", onData);
    socket.once("end", onEnd);
    socket.once("close", onEnd);
    socket.resume();
  });
}
