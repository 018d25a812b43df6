/** The beginning of what a socket says, until `read` can make something of it. The rest stays in the socket. */
import type { Socket } from "node:net";

export interface Peeked<T> {
  value: T;
  /** Bytes that are not given back. */
  used: number;
}

/** Null: it ended, or said `max` bytes and `read`, told that this is all, still made nothing of them. */
export function peek<T>(
  socket: Socket,
  max: number,
  read: (bytes: Buffer, full: boolean) => Peeked<T> | undefined,
): Promise<T | null> {
  return new Promise((resolve) => {
    // Grown by doubling: a client that sends single bytes must not cost a copy of everything each time.
    let room = Buffer.alloc(512);
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
      if (length + chunk.length > room.length) {
        const larger = Buffer.alloc(2 * (length + chunk.length));
        room.copy(larger, 0, 0, length);
        room = larger;
      }
      chunk.copy(room, length);
      length += chunk.length;
      const found = read(room.subarray(0, Math.min(length, max)), length >= max);
      if (found === undefined && length < max) return;
      settle(found?.value ?? null);
      if (found !== undefined && found.used < length) socket.unshift(room.subarray(found.used, length));
    };
    socket.on("data", onData);
    socket.once("end", onEnd);
    socket.once("close", onEnd);
    socket.resume();
  });
}
