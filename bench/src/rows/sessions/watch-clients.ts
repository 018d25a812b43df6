/**
 * Lightweight clients: raw sockets that perform the handshake, attach, and count frames. As a separate process, this
 * file reads `{"url", "clients", "session"}` or `{"reach"}` per line on stdin and responds to each line with
 * `{"frames"}`, the number of received frames.
 */
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { TOKEN } from "./watch-server.ts";

export interface ConnectedClients {
  /** Frames received so far by all clients. */
  readonly frames: number;
  /** Resolves when this many frames have arrived. */
  waitForFrames(frames: number): Promise<void>;
  close(): void;
}

/** `attach` returns the session that the n-th client attaches to; with null, no client attaches. */
export async function connectClients(
  url: string,
  clients: number,
  attach: ((n: number) => string) | null,
): Promise<ConnectedClients> {
  let frames = 0;
  let target_frames = Number.POSITIVE_INFINITY;
  let done: () => void = () => {};
  const count = (more: number) => {
    frames += more;
    if (frames >= target_frames) {
      target_frames = Number.POSITIVE_INFINITY;
      done();
    }
  };
  const sockets: Socket[] = [];
  for (let n = 0; n < clients; n += 50) {
    const opened = Array.from({ length: Math.min(50, clients - n) }, (_, i) =>
      openClient(url, attach?.(n + i) ?? null, count),
    );
    sockets.push(...(await Promise.all(opened)));
  }
  return {
    get frames() {
      return frames;
    },
    waitForFrames(target) {
      return new Promise((resolve) => {
        done = resolve;
        target_frames = target;
        count(0);
      });
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function openClient(url: string, session: string | null, count: (frames: number) => void): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  socket.write(
    `GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
      `Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  );
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.once("data", (chunk: Buffer) => {
      const head = chunk.toString("latin1");
      if (!head.startsWith("HTTP/1.1 101")) return reject(new Error(`refused: ${head.slice(0, 300)}`));
      const counter = frameCounter(count);
      const rest = chunk.subarray(head.indexOf("\r\n\r\n") + 4);
      socket.on("data", counter);
      if (rest.length > 0) counter(rest);
      if (session === null) return resolve(socket);
      socket.write(maskedText(JSON.stringify({ op: "attach", session_id: session })));
      socket.once("data", () => resolve(socket));
    });
  });
}

/** Reads the frame lengths and skips the payloads. */
function frameCounter(count: (frames: number) => void): (chunk: Buffer) => void {
  let skip = 0;
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let frames = 0;
    for (;;) {
      if (skip > bytes.length) {
        skip -= bytes.length;
        bytes = Buffer.alloc(0);
        break;
      }
      bytes = bytes.subarray(skip);
      skip = 0;
      if (bytes.length < 2) break;
      const short = bytes[1]! & 127;
      if (short === 127 || (short === 126 && bytes.length < 4)) break;
      skip = short === 126 ? 4 + bytes.readUInt16BE(2) : 2 + short;
      // A frame is counted when it begins; the next one cannot begin before it has ended.
      frames++;
    }
    rest = bytes;
    if (frames > 0) count(frames);
  };
}

/** Uses a mask of zeros, which leaves the payload unchanged. */
function maskedText(text: string): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

if (import.meta.main) {
  let connected: ConnectedClients | null = null;
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line) as
      | { url: string; clients: number; session: string | null }
      | { reach: number };
    if ("reach" in request) await connected!.waitForFrames(request.reach);
    else {
      connected?.close();
      const { session } = request;
      connected = await connectClients(request.url, request.clients, session === null ? null : () => session);
    }
    console.log(JSON.stringify({ frames: connected!.frames }));
  }
}
