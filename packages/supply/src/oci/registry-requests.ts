/**
 * Sends single requests to registries. Each name is resolved once, and the connection goes only to the addresses that
 * `addresses` has checked, so a DNS answer that changes between the check and the connection has no effect.
 */
import {
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as plainRequest,
} from "node:http";
import { Agent as HttpsAgent, request as secureRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { codeOf } from "@backplane/contract";
import { unreachableRegistry } from "./registry-errors.ts";

export interface RegistryRequest {
  method: "GET" | "HEAD" | "POST" | "PUT";
  url: URL;
  headers: Record<string, string>;
  /** A body that can be sent again; `size` is its Content-Length. */
  body?: { size: number; bytes: () => AsyncIterable<Uint8Array> };
  signal: AbortSignal;
}

export interface RegistryResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: IncomingMessage;
}

/** One request without redirects. */
export type SendToRegistry = (request: RegistryRequest) => Promise<RegistryResponse>;

/** Finds the addresses that may be connected to. Rejects with `policy.denied` for a destination that is not allowed. */
export type FindAddresses = (destination: { host: string; port: number }) => Promise<readonly string[]>;

/** If `addresses` is null, nothing is checked: the operator has chosen the registry, on the command line or for npm. */
export function createRegistryRequests(options: {
  addresses: FindAddresses | null;
  idle_ms: number;
  /** The operator's own proxy; it resolves the names instead. */
  proxy?: URL | null;
}): {
  send: SendToRegistry;
  close(): void;
} {
  const proxy = options.proxy?.href;
  const settings = {
    keepAlive: true,
    maxSockets: 8,
    ...(proxy === undefined ? {} : { proxyEnv: { HTTP_PROXY: proxy, HTTPS_PROXY: proxy } }),
  };
  const agents = { http: new HttpAgent(settings), https: new HttpsAgent(settings) };
  return {
    async send({ method, url, headers, body, signal }) {
      const lookup = options.addresses === null ? undefined : await createLookup(options.addresses, url);
      const secure = url.protocol === "https:";
      const sendRequest = secure ? secureRequest : plainRequest;
      const { promise, resolve, reject } = Promise.withResolvers<RegistryResponse>();
      const outgoing = sendRequest(url, {
        method,
        headers: { ...headers, ...(body === undefined ? {} : { "content-length": body.size }) },
        agent: secure ? agents.https : agents.http,
        signal,
        ...(lookup === undefined ? {} : { lookup }),
      });
      outgoing.setTimeout(options.idle_ms, () =>
        outgoing.destroy(new Error(`it sent nothing for ${Math.ceil(options.idle_ms / 1_000)} seconds`)),
      );
      outgoing.once("response", (response) =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response }),
      );
      outgoing.on("error", (error) => reject(describeFailure(url.host, error, signal)));
      if (body === undefined) outgoing.end();
      else
        Readable.from(body.bytes(), { objectMode: false })
          .on("error", (error) => outgoing.destroy(error))
          .pipe(outgoing);
      return await promise;
    },
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

async function createLookup(addresses: FindAddresses, url: URL): Promise<LookupFunction> {
  const host = url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  let checked: readonly string[];
  try {
    checked = await addresses({ host, port });
  } catch (error) {
    throw codeOf(error) !== undefined
      ? error
      : unreachableRegistry(url.host, "its name cannot be resolved", error);
  }
  const list = checked.map((address) => ({ address, family: isIP(address) }));
  return (_name, { all }, callback) => {
    if (all === true) callback(null, list);
    else callback(null, list[0]!.address, list[0]!.family);
  };
}

function describeFailure(host: string, error: Error, signal: AbortSignal): Error {
  if (codeOf(error) !== undefined) return error;
  const { code } = error as NodeJS.ErrnoException;
  return unreachableRegistry(
    host,
    signal.aborted ? "the request took too long" : (code ?? error.message),
    error,
  );
}
