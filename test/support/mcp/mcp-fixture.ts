/** A gateway with the conformance fixture bound, and a proxy that adds the key, because the suite sends none. */
import { createServer, request as forward, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";

export const FIXTURE = resolve("test/fixtures/mcp-conformance");

export interface McpFixture {
  gateway: TestGateway;
  binding_id: string;
  /** The URL of the server's own endpoint, which needs no key through the proxy. */
  url: string;
  dispose(): Promise<void>;
}

export async function startMcpFixture(): Promise<McpFixture> {
  const gateway = await startTestGateway();
  // The risk of the fixture's tools is unknown, so each call would need approval.
  const policy_change = await gateway.cli("policy", "set", "tolerance.conversation", "full");
  if (policy_change.code !== 0) throw new Error(policy_change.stderr);
  const installed = await gateway.http("POST", "/v1/plugin-packages", { source: { folder: FIXTURE } });
  if (installed.status !== 201) throw new Error(JSON.stringify(installed.body));
  const bound = await gateway.http<{ binding_id: string }>("POST", "/v1/plugin-bindings", {
    package_id: "fixtures/conformance",
    package_version: "1.0.0",
    export_id: "*",
  });
  if (bound.status !== 201) throw new Error(JSON.stringify(bound.body));
  const proxy = await startProxy(gateway, "/mcp/servers/conformance");
  return {
    gateway,
    binding_id: bound.body.binding_id,
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`,
    async dispose() {
      proxy.closeAllConnections();
      proxy.close();
      await gateway.dispose();
    },
  };
}

function startProxy(gateway: TestGateway, path: string): Promise<Server> {
  const { hostname, port } = new URL(gateway.url);
  const server = createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${gateway.token}` };
    const upstream_request = forward(
      { hostname, port, path, method: request.method, headers },
      (upstream_response) => {
        response.writeHead(upstream_response.statusCode!, upstream_response.headers);
        upstream_response.pipe(response);
      },
    );
    request.pipe(upstream_request);
    upstream_request.on("error", () => response.destroy());
    response.on("close", () => upstream_request.destroy());
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}
