/**
 * `mcp.http`: an MCP server elsewhere, spoken to over streamable HTTP by the gateway itself. Where it is stands in the
 * manifest as the entrypoint; whether it may be dialled is the grant's to say, like any plugin's way out.
 */
import { BackplaneError } from "@backplane/contract";
import { guardedRequests, type OutwardRules } from "../../egress/gateway-requests/guarded-requests.ts";
import type { Dialect, Link, ProcessOrder } from "../../ports/dialect.ts";
import { bindingHeaders } from "./http-headers.ts";
import { HttpLine } from "./http-transport.ts";
import { McpSession } from "./session.ts";

export function mcpHttp(outward: OutwardRules): Dialect {
  return {
    protocol: "mcp.http",
    lifetime: "pooled",
    resident: true,
    call_scratch: false,
    remote: true,
    refuses: (order) =>
      order.op === "tool.invoke" ? null : `An MCP server offers tools only, no ${order.op}.`,
    connect: (link) => sessionTo(link, outward),
  };
}

function sessionTo(link: Link, outward: OutwardRules): McpSession {
  const order = link.order!;
  const { grant, context } = order;
  const url = urlOf(order);
  if (grant.network !== "egress") {
    throw new BackplaneError(
      "launch_failed",
      `${url.host} is not dialled: the binding is granted no network.`,
    );
  }
  const requests = guardedRequests(url, grant.allowed_domains, outward);
  return new McpSession({
    link,
    makeLine: (events) =>
      new HttpLine(
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
    // Its files are not ours, and ours are not there.
    folders: [],
    skip_discovery: false,
    spare: () => {},
  });
}

function urlOf({ package: { package_id, runtime } }: ProcessOrder): URL {
  const text = runtime.entrypoint[0] ?? "";
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:") || url.username !== "") {
    throw new BackplaneError("launch_failed", `The entrypoint of ${package_id} is no address of HTTP.`);
  }
  return url;
}
