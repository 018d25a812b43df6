/** Creates the dialects of one runner. */
import type { Protocol } from "@backplane/contract";
import type { OutboundRules } from "../egress/gateway-requests/guarded-requests.ts";
import type { Dialect } from "../ports/dialect.ts";
import { instrumentModule, instrumentRpc } from "./instruments/instrument-rpc.ts";
import { ServerLogLevels } from "./mcp/log-levels.ts";
import { mcpHttp } from "./mcp/mcp-http.ts";
import { mcpStdio } from "./mcp/mcp-stdio.ts";
import { sideProcess } from "./side-process.ts";
import { toolModule } from "./tool-module.ts";
import { vaiRpc } from "./vai-rpc.ts";

export interface DialectOptions {
  /** The destinations that the gateway may connect to on behalf of a binding. */
  outbound: OutboundRules;
}

export type DialectFor = (protocol: string) => Dialect | null;

export function createDialects({ outbound }: DialectOptions): DialectFor {
  const levels = new ServerLogLevels();
  const dialects: readonly Dialect[] = [
    vaiRpc,
    sideProcess,
    instrumentRpc,
    instrumentModule,
    toolModule,
    mcpStdio(levels),
    mcpHttp(outbound, levels),
  ];
  const by_protocol = new Map<string, Dialect>(
    dialects.map((dialect) => [dialect.protocol satisfies Protocol, dialect]),
  );
  return (protocol) => by_protocol.get(protocol) ?? null;
}
