/** A server that answers requests of the CLI with prepared responses, for states that a real gateway rarely has. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { runProgram } from "../../src/index.ts";
import { captureIo } from "./capture-io.ts";

export interface FakeResponse {
  status?: number;
  json: unknown;
}

export interface FakeGateway {
  url: string;
  /** `GET /path` for each request, in order. */
  requests: string[];
  backplane(...argv: string[]): Promise<{ exit: number; out: string; err: string }>;
}

export function errorResponse(status: number, code: string): FakeResponse {
  return { status, json: { error: { code, message: code, request_id: "req_1" } } };
}

export async function startFakeGateway(
  respond: (url: URL, request: IncomingMessage) => FakeResponse,
): Promise<FakeGateway> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    requests.push(`${request.method} ${url.pathname}`);
    const { status = 200, json } = respond(url, request);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(json));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    async backplane(...argv) {
      const io = captureIo({
        env: { BACKPLANE_URL: url, BACKPLANE_TOKEN: "bpk_test", HOME: "/nonexistent" },
      });
      return { exit: await runProgram(argv, io), out: io.out(), err: io.err() };
    },
  };
}

/** Serves a list in pages of one item. */
export function pageOfOne<T>(items: readonly T[], after: string | null): FakeResponse {
  const start = after === null ? 0 : Number(after);
  return {
    json: { items: items.slice(start, start + 1), next: start + 1 < items.length ? `${start + 1}` : null },
  };
}
