/** The order in which metadata is requested, and the metadata that is refused. */

import type { JsonObject } from "@backplane/contract";
import type { ServerChallenge } from "@backplane/ports";
import { expect, test } from "vitest";
import { discoverAuthorization } from "../../src/sign-ins/discovery.ts";
import type { OAuthFetch } from "../../src/sign-ins/oauth-fetch.ts";

/** Serves documents by URL; everything else is 404. */
function createFakeWeb(documents: Record<string, JsonObject>): OAuthFetch & { requests: string[] } {
  const requests: string[] = [];
  const get = async (url: string) => {
    requests.push(url);
    const json = documents[url] ?? null;
    return { status: json === null ? 404 : 200, json };
  };
  return { requests, get, postForm: get, postJson: get };
}

const SERVER = new URL("https://mcp.example/team/mcp");
const RESOURCE_METADATA = "https://mcp.example/.well-known/oauth-protected-resource";
const buildServerMetadata = (issuer: string, more: JsonObject = {}): JsonObject => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  code_challenge_methods_supported: ["S256"],
  ...more,
});
const buildResourceMetadata = (more: JsonObject = {}): JsonObject => ({
  resource: SERVER.href,
  authorization_servers: ["https://as.example/t1"],
  ...more,
});
const buildChallenge = (resource_metadata: string): ServerChallenge => ({
  status: 401,
  error: null,
  scope: null,
  resource_metadata,
  shown: null,
});

test("requests metadata in the order of the specification", async () => {
  const web = createFakeWeb({
    [RESOURCE_METADATA]: buildResourceMetadata({
      resource: "https://mcp.example",
      scopes_supported: ["a", "b"],
    }),
    "https://as.example/t1/.well-known/openid-configuration": buildServerMetadata("https://as.example/t1"),
  });
  expect(await discoverAuthorization(web, SERVER, null)).toMatchObject({
    resource: "https://mcp.example",
    scopes: ["a", "b"],
    server: { issuer: "https://as.example/t1", registration_endpoint: null, sends_issuer: false },
  });
  expect(web.requests).toEqual([
    `${RESOURCE_METADATA}/team/mcp`,
    RESOURCE_METADATA,
    "https://as.example/.well-known/oauth-authorization-server/t1",
    "https://as.example/.well-known/openid-configuration/t1",
    "https://as.example/t1/.well-known/openid-configuration",
  ]);
});

test("requests only the metadata URL in the server's challenge", async () => {
  const metadata_url = "https://mcp.example/custom.json";
  const web = createFakeWeb({
    [metadata_url]: buildResourceMetadata({ authorization_servers: ["https://as.example"] }),
    "https://as.example/.well-known/oauth-authorization-server": buildServerMetadata("https://as.example"),
  });
  await discoverAuthorization(web, SERVER, buildChallenge(metadata_url));
  expect(web.requests[0]).toBe(metadata_url);
  expect(web.requests).toHaveLength(2);
  await expect(
    discoverAuthorization(
      createFakeWeb({ [RESOURCE_METADATA]: buildResourceMetadata() }),
      SERVER,
      buildChallenge(metadata_url),
    ),
  ).rejects.toMatchObject({
    code: "sign_in.failed",
  });
});

test("finds the endpoints of a 2025-03-26 server by metadata or by their default paths", async () => {
  const without_metadata = createFakeWeb({});
  expect(await discoverAuthorization(without_metadata, SERVER, null)).toMatchObject({
    resource: SERVER.href,
    server: { issuer: "https://mcp.example", token_endpoint: "https://mcp.example/token" },
  });
  const with_metadata = createFakeWeb({
    "https://mcp.example/.well-known/oauth-authorization-server": buildServerMetadata("https://mcp.example"),
  });
  expect(await discoverAuthorization(with_metadata, SERVER, null)).toMatchObject({
    server: { issuer: "https://mcp.example" },
  });
});

const SERVER_METADATA = "https://as.example/.well-known/oauth-authorization-server/t1";
const valid = buildServerMetadata("https://as.example/t1");
test.each<[string, Record<string, JsonObject>]>([
  [
    "another resource",
    {
      [RESOURCE_METADATA]: buildResourceMetadata({ resource: "https://evil.example/team/mcp" }),
      [SERVER_METADATA]: valid,
    },
  ],
  [
    "a resource at a sibling path of the server",
    {
      [RESOURCE_METADATA]: buildResourceMetadata({ resource: "https://mcp.example/team/mcp2" }),
      [SERVER_METADATA]: valid,
    },
  ],
  [
    "a resource at a subpath of the server",
    {
      [RESOURCE_METADATA]: buildResourceMetadata({ resource: "https://mcp.example/team/mcp/x" }),
      [SERVER_METADATA]: valid,
    },
  ],
  [
    "another issuer",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: buildServerMetadata("https://evil.example"),
    },
  ],
  [
    "PKCE without S256",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: { ...valid, code_challenge_methods_supported: ["plain"] },
    },
  ],
  [
    "metadata without PKCE",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: { ...valid, code_challenge_methods_supported: null },
    },
  ],
  [
    "an issuer over plain http",
    { [RESOURCE_METADATA]: buildResourceMetadata({ authorization_servers: ["http://as.example/t1"] }) },
  ],
  [
    "a script as the authorization endpoint",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: { ...valid, authorization_endpoint: "javascript:alert(1)" },
    },
  ],
  [
    "a token endpoint over plain http",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: { ...valid, token_endpoint: "http://as.example/token" },
    },
  ],
  [
    "an endpoint URL with a user name",
    {
      [RESOURCE_METADATA]: buildResourceMetadata(),
      [SERVER_METADATA]: { ...valid, token_endpoint: "https://u:p@as.example/token" },
    },
  ],
  ["an issuer without metadata", { [RESOURCE_METADATA]: buildResourceMetadata() }],
])("refuses %s", async (_, documents) => {
  await expect(discoverAuthorization(createFakeWeb(documents), SERVER, null)).rejects.toMatchObject({
    code: "sign_in.failed",
  });
});

test("allows a sign-in over plain http only on loopback", async () => {
  const plain = new URL("http://mcp.example/mcp");
  await expect(discoverAuthorization(createFakeWeb({}), plain, null)).rejects.toMatchObject({
    code: "sign_in.failed",
  });
  await discoverAuthorization(createFakeWeb({}), new URL("http://localhost:3000/mcp"), null);
});
