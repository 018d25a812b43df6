/**
 * A vendor on a local port: accepts real requests from the vendors' SDKs and responds to each as the test specifies,
 * byte by byte if necessary.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface VendorRequest {
  path: string;
  headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: the shape of the body depends on the test.
  body: any;
  /** Resolves when the response is complete or its connection is closed. */
  closed: Promise<void>;
}

export type VendorReply = (response: ServerResponse, request: VendorRequest) => Promise<void> | void;

export class Vendor {
  readonly requests: VendorRequest[] = [];
  answer: VendorReply = json(500, { error: { message: "no answer was scripted" } });
  readonly #server = createServer((incoming, response) => {
    const closed = new Promise<void>((resolve) => response.on("close", resolve));
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      const request = { path: incoming.url ?? "", headers: incoming.headers, body, closed };
      this.requests.push(request);
      void this.answer(response, request);
    });
  });

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** The last request's body. */
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  get body(): any {
    return this.requests.at(-1)?.body;
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): VendorReply {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

export type StreamEnd = "end" | "cut" | "hang";

/** Writes the stream in pieces of the given size, splitting lines, JSON and characters. */
export function sse(text: string, options: { bytes?: number; after?: StreamEnd } = {}): VendorReply {
  const { bytes = 4096, after = "end" } = options;
  return async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    const data = Buffer.from(text);
    for (let at = 0; at < data.length; at += bytes) {
      response.write(data.subarray(at, at + bytes));
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (after === "end") response.end();
    else if (after === "cut") response.socket?.destroy();
  };
}
