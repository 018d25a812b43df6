/**
 * The HTTP requests of one line to an MCP server, from their opening to their answer. What is open is known here, so that
 * closing the line ends all of it; only a farewell is sent after that.
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

  /** Until the head of the answer. `born` gets the request before it is sent. */
  async exchange(
    method: string,
    headers: Record<string, string>,
    body: string | null,
    born: (request: ClientRequest) => void,
    evenClosed = false,
  ): Promise<IncomingMessage> {
    const request = await this.#guarded.open({ method, headers });
    if (this.#closed && !evenClosed) request.destroy();
    this.#open.add(request);
    request.once("close", () => this.#open.delete(request));
    born(request);
    return await new Promise((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
      // Node tells neither of an answer nor of an error when the server changes to another protocol.
      request.once("close", () => reject(new Error("it gave no answer that can be read")));
      request.end(body ?? undefined);
    });
  }

  /** Ends what is open; `last` may still be said. */
  close(last: () => Promise<void>): void {
    this.#closed = true;
    for (const request of this.#open) request.destroy();
    void last().finally(() => this.#guarded.close());
  }
}

/** The whole body. Throws `frame_too_large`. */
export async function collectBody(response: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += (chunk as Buffer).length;
    if (size > limit) {
      response.destroy();
      throw new BackplaneError(
        "frame_too_large",
        `An answer is larger than ${limit} bytes, which is the limit.`,
      );
    }
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

export function one(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null;
}
