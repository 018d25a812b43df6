/** Checks and formats the address that the gateway listens on. */
import { isIP } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { GatewayConfig } from "./config.ts";

type Listen = GatewayConfig["listen"];

/**
 * Throws if credentials would be sent unencrypted over a network, unless the operator has allowed it, or if only one of
 * the two TLS files is configured.
 */
export function assertSafeListen(listen: Listen): void {
  const tls = listen.tls_cert !== undefined && listen.tls_key !== undefined;
  if ((listen.tls_cert === undefined) !== (listen.tls_key === undefined)) {
    throw new BackplaneError("config.invalid", "listen.tls_cert and listen.tls_key must be set together.", {
      fix: "Set both, or neither.",
    });
  }
  if (isLoopback(listen.host) || tls || listen.insecure) return;
  throw new BackplaneError(
    "listen.unsafe",
    `Listening on ${listen.host} without TLS would expose the credentials.`,
  );
}

function isLoopback(host: string): boolean {
  if (host === "localhost" || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}

/** The host of the printed URL, because a browser cannot open a wildcard address. */
export function browserHost(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return isIP(host) === 6 ? `[${host}]` : host;
}
