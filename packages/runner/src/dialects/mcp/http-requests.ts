/**
 * Keeps track of the open HTTP requests of one transport to an MCP server, so that closing the transport aborts them.
 * Only the request that ends the session is sent after that.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { BackplaneError } from "@backplane/contract";
import type { GuardedRequests } from "../../egress/gateway-requests/guarded-requests.ts";

export class HttpRequests {
  readonly #guarded: GuardedRequests;
  readonly #open = new Set<ClientRequest>();
  #closed = false;

  constructor(guarded: GuardedRequests) {
    this.#guarded = guarded;
  }

  /** Resolves with the response head. `onRequest` gets the request before it is sent. */
  async exchange(
    method: string,
    headers: Record<string, string>,
    body: string | null,
    onRequest: (request: ClientRequest) => void,
    allow_when_closed = false,
  ): Promise<IncomingMessage> {
    const request = await this.#guarded.open({ method, headers });
    if (this.#closed && !allow_when_closed) request.destroy();
    this.#open.add(request);
    request.once("close", () => this.#open.delete(request));
    onRequest(request);
    return await new Promise((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
      // Node emits neither `response` nor `error` when the server switches to another protocol.
      request.once("close", () => reject(new Error("the response cannot be read")));
      request.end(body ?? undefined);
    });
  }

  /** Aborts all open requests. `last` may still send one. */
  close(last: () => Promise<void>): void {
    this.#closed = true;
    for (const request of this.#open) request.destroy();
    void last().finally(() => this.#guarded.close());
  }
}

/** Reads the whole body. Throws `frame_too_large`. */
export async function collectBody(response: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += (chunk as Buffer).length;
    if (size > limit) {
      response.destroy();
      throw new BackplaneError(
        "frame_too_large",
        `A response of the MCP server exceeds the limit of ${limit} bytes.`,
      );
    }
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

export function responseHeader(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null;
}
