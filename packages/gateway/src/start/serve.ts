/** Creates the API of a kernel and listens on the configured address. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createApi } from "@backplane/api";
import { BackplaneError, type IdSource } from "@backplane/contract";
import type { Clock, Kernel, Logger } from "@backplane/ports";
import type { GatewayConfig } from "../config/config.ts";
import { browserHost } from "../config/listen.ts";
import { openConsoleSessions } from "../home/console-sessions.ts";
import { VERSION } from "../host/version.ts";
import { readStoreSummary } from "../store/store-summary.ts";

export interface ListeningServer {
  url: string;
  loginUrl(): string;
  /** Starts accepting requests; until then they get 503. */
  open(): void;
  close(): Promise<void>;
}

export async function serveApi(
  config: GatewayConfig,
  home: { dir: string; admin_token: string },
  kernel: Kernel,
  deps: { clock: Clock; ids: IdSource; log: Logger },
  examples_folder?: string,
): Promise<ListeningServer> {
  const { listen, limits } = config;
  const tls = readTls(listen);
  let started = false;
  const api = await createApi({
    kernel,
    started: () => started,
    auth: {
      admin_token_sha256: createHash("sha256").update(home.admin_token).digest("hex"),
      saved_sessions: openConsoleSessions(home.dir, home.admin_token, deps.log),
    },
    listen: { hosts: [listen.host, ...listen.hosts, ...publicHost(listen)], secure: tls !== undefined, tls },
    limits: { body_bytes: limits.body_bytes, upload_bytes: limits.upload_bytes },
    version: VERSION,
    storeSummary: () => readStoreSummary(config),
    examples_folder,
    clock: deps.clock,
    ids: deps.ids,
    log: deps.log,
  });
  try {
    await api.listen({ host: listen.host, port: listen.port });
  } catch (error) {
    await api.close();
    throw toListenError(error, listen);
  }
  const { port } = api.server.address() as AddressInfo;
  const url = `${tls === undefined ? "http" : "https"}://${browserHost(listen.host)}:${port}`;
  return {
    url,
    loginUrl: () => `${url}/login?code=${api.mintLoginCode()}`,
    open() {
      started = true;
    },
    close: () => api.close(),
  };
}

function publicHost({ public_url }: GatewayConfig["listen"]): string[] {
  return public_url === undefined ? [] : [new URL(public_url).host];
}

export function readTls(listen: GatewayConfig["listen"]): { cert: string; key: string } | undefined {
  if (listen.tls_cert === undefined || listen.tls_key === undefined) return undefined;
  const read = (name: string, file: string) => {
    try {
      return readFileSync(file, "utf8");
    } catch (error) {
      throw new BackplaneError("config.invalid", `${name}: ${file} cannot be read.`, { cause: error });
    }
  };
  return { cert: read("listen.tls_cert", listen.tls_cert), key: read("listen.tls_key", listen.tls_key) };
}

function toListenError(error: unknown, listen: GatewayConfig["listen"]): unknown {
  const code = (error as { code?: string }).code;
  const address = `${listen.host}:${listen.port}`;
  if (code === "EADDRINUSE") {
    return new BackplaneError("config.invalid", `Another program is already listening on ${address}.`, {
      fix: "Stop it, or start with --port 0 for any free port.",
      cause: error,
    });
  }
  if (code === "EACCES" || code === "EADDRNOTAVAIL") {
    return new BackplaneError("config.invalid", `The gateway cannot listen on ${address} (${code}).`, {
      fix: "Choose another address with --host and --port.",
      cause: error,
    });
  }
  return error;
}
