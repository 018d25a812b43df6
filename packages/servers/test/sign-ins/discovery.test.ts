/** The order in which metadata is requested, and the metadata that is refused. */

import type { JsonObject } from "@backplane/contract";
import type { ServerChallenge } from "@backplane/ports";
import { expect, test } from "vitest";
import { discoverAuthorization } from "../../src/sign-ins/discovery.ts";
import type { OAuthFetch } from "../../src/sign-ins/oauth-fetch.ts";

/** Serves documents by URL; everything else is 404. */
function web(documents: Record<string, JsonObject>): OAuthFetch & { asked: string[] } {
  const requests: string[] = [];
  const get = async (url: string) => {
    requests.push(url);
    const json = documents[url] ?? null;
    return { status: json === null ? 404 : 200, json };
  };
  return { asked: requests, get, postForm: get, postJson: get };
}

const SERVER = new URL("https://mcp.example/team/mcp");
const PRM = "https://mcp.example/.well-known/oauth-protected-resource";
const metadata = (issuer: string, more: JsonObject = {}): JsonObject => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  code_challenge_methods_supported: ["S256"],
  ...more,
});
const resource = (more: JsonObject = {}): JsonObject => ({
  resource: SERVER.href,
  authorization_servers: ["https://as.example/t1"],
  ...more,
});
const challenge = (resource_metadata: string): ServerChallenge => ({
  status: 401,
  error: null,
  scope: null,
  resource_metadata,
  shown: null,
});

test("requests metadata in the order of the specification", async () => {
  const discovered = web({
    [PRM]: resource({ resource: "https://mcp.example", scopes_supported: ["a", "b"] }),
    "https://as.example/t1/.well-known/openid-configuration": metadata("https://as.example/t1"),
  });
  expect(await discoverAuthorization(discovered, SERVER, null)).toMatchObject({
    resource: "https://mcp.example",
    scopes: ["a", "b"],
    server: { issuer: "https://as.example/t1", registration_endpoint: null, sends_issuer: false },
  });
  expect(discovered.asked).toEqual([
    `${PRM}/team/mcp`,
    PRM,
    "https://as.example/.well-known/oauth-authorization-server/t1",
    "https://as.example/.well-known/openid-configuration/t1",
    "https://as.example/t1/.well-known/openid-configuration",
  ]);
});

test("requests only the metadata URL that the server names", async () => {
  const named = "https://mcp.example/custom.json";
  const discovered = web({
    [named]: resource({ authorization_servers: ["https://as.example"] }),
    "https://as.example/.well-known/oauth-authorization-server": metadata("https://as.example"),
  });
  await discoverAuthorization(discovered, SERVER, challenge(named));
  expect(discovered.asked[0]).toBe(named);
  expect(discovered.asked).toHaveLength(2);
  await expect(
    discoverAuthorization(web({ [PRM]: resource() }), SERVER, challenge(named)),
  ).rejects.toMatchObject({
    code: "sign_in.failed",
  });
});

test("finds the endpoints of a 2025-03-26 server by metadata or by their default paths", async () => {
  const bare = web({});
  expect(await discoverAuthorization(bare, SERVER, null)).toMatchObject({
    resource: SERVER.href,
    server: { issuer: "https://mcp.example", token_endpoint: "https://mcp.example/token" },
  });
  const own = web({
    "https://mcp.example/.well-known/oauth-authorization-server": metadata("https://mcp.example"),
  });
  expect(await discoverAuthorization(own, SERVER, null)).toMatchObject({
    server: { issuer: "https://mcp.example" },
  });
});

const AS = "https://as.example/.well-known/oauth-authorization-server/t1";
const good = metadata("https://as.example/t1");
test.each<[string, Record<string, JsonObject>]>([
  ["another resource", { [PRM]: resource({ resource: "https://evil.example/team/mcp" }), [AS]: good }],
  [
    "a resource at a sibling path of the server",
    { [PRM]: resource({ resource: "https://mcp.example/team/mcp2" }), [AS]: good },
  ],
  [
    "a resource at a subpath of the server",
    { [PRM]: resource({ resource: "https://mcp.example/team/mcp/x" }), [AS]: good },
  ],
  ["another issuer", { [PRM]: resource(), [AS]: metadata("https://evil.example") }],
  [
    "PKCE without S256",
    { [PRM]: resource(), [AS]: { ...good, code_challenge_methods_supported: ["plain"] } },
  ],
  ["metadata without PKCE", { [PRM]: resource(), [AS]: { ...good, code_challenge_methods_supported: null } }],
  ["an issuer over plain http", { [PRM]: resource({ authorization_servers: ["http://as.example/t1"] }) }],
  [
    "a script as the authorization endpoint",
    { [PRM]: resource(), [AS]: { ...good, authorization_endpoint: "javascript:alert(1)" } },
  ],
  [
    "a token endpoint over plain http",
    { [PRM]: resource(), [AS]: { ...good, token_endpoint: "http://as.example/token" } },
  ],
  [
    "an endpoint URL with a user name",
    { [PRM]: resource(), [AS]: { ...good, token_endpoint: "https://u:p@as.example/token" } },
  ],
  ["an issuer without metadata", { [PRM]: resource() }],
])("refuses %s", async (_, documents) => {
  await expect(discoverAuthorization(web(documents), SERVER, null)).rejects.toMatchObject({
    code: "sign_in.failed",
  });
});

test("allows a sign-in over plain http only on loopback", async () => {
  const plain = new URL("http://mcp.example/mcp");
  await expect(discoverAuthorization(web({}), plain, null)).rejects.toMatchObject({ code: "sign_in.failed" });
  await discoverAuthorization(web({}), new URL("http://localhost:3000/mcp"), null);
});
