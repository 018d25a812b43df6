/**
 * `mcp.http`: a remote MCP server that the gateway itself connects to over streamable HTTP. The manifest's
 * entrypoint is its URL. The grant decides whether the gateway may connect, as for any egress of a plugin.
 */
import { BackplaneError } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";
import { createGuardedRequests, type OutboundRules } from "../../egress/gateway-requests/guarded-requests.ts";
import type { Dialect, ProcessLink } from "../../ports/dialect.ts";
import { bindingHeaders } from "./http-headers.ts";
import { HttpTransport } from "./http-transport.ts";
import type { ServerLogLevels } from "./log-levels.ts";
import { McpDialectSession } from "./session.ts";

export function mcpHttp(outbound: OutboundRules, levels: ServerLogLevels): Dialect {
  return {
    protocol: "mcp.http",
    lifetime: "pooled",
    resident: true,
    call_scratch: false,
    remote: true,
    unsupportedReason: (request) =>
      request.op === "tool.invoke" ? null : `An MCP server supports only tools, not ${request.op}.`,
    connect: (link) => openSession(link, outbound, levels),
  };
}

function openSession(link: ProcessLink, outbound: OutboundRules, levels: ServerLogLevels): McpDialectSession {
  const request = link.request!;
  const { grant, context } = request;
  const url = requireUrl(request);
  if (grant.network !== "egress") {
    throw new BackplaneError(
      "launch_failed",
      `The gateway does not connect to ${url.host}: the grant does not allow network access.`,
    );
  }
  const requests = createGuardedRequests(url, grant.allowed_domains, outbound);
  return new McpDialectSession({
    link,
    createTransport: (events) =>
      new HttpTransport(
        {
          requests,
          limits: link.limits,
          after: (ms, run) => link.after(ms, run),
          headers: bindingHeaders,
          secrets: context.secrets,
          config: context.config,
        },
        events,
      ),
    // A remote server has no access to local folders.
    folders: [],
    log_level: levels.forServer(request),
    skip_discovery: false,
    disableDiscovery: () => {},
  });
}

function requireUrl({ package: { package_id, runtime } }: ProcessRequest): URL {
  const text = runtime.entrypoint[0] ?? "";
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:") || url.username !== "") {
    throw new BackplaneError("launch_failed", `The entrypoint of ${package_id} is not an HTTP URL.`);
  }
  return url;
}
