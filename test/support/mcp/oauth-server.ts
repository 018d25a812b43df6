/**
 * A real authorization server and an MCP server that accepts its tokens, on separate sockets: codes with PKCE, rotating
 * refresh tokens, tokens bound to a resource, revocation. Tests change their behavior through fields.
 */
import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Form = Record<string, string>;

interface Token {
  client_id: string;
  resource: string;
  scope: string;
  expires_at: number;
}

export interface AuthorizationServer {
  issuer: string;
  address: string;
  /** The bodies of requests to the token endpoint. */
  token_requests: Form[];
  registrations: Record<string, unknown>[];
  revoked: string[];
  /** The status of the revocation endpoint; any status but 200 revokes nothing. */
  revoke_status: number;
  /** Every secret that the server knows: those that it has issued, and the secret of the client `machine`. */
  issued_secrets: string[];
  /** Lifetime of access tokens in seconds. */
  expires_in: number;
  /** Delay of the token endpoint in ms. */
  token_delay_ms: number;
  /** The person's decision. */
  consent: "yes" | "no";
  /** Whether the authorization endpoint shows a page with a link that the person has to follow. */
  shows_page: boolean;
  /** If not null, tokens are issued for this resource instead of the requested one. */
  wrong_resource: string | null;
  metadata: Record<string, unknown>;
  /** Returns the access token if it is valid for the resource. */
  findToken(token: string, resource: string): Token | null;
  /** Invalidates all access tokens; with `refresh`, refresh tokens too. */
  revokeAll(options?: { refresh?: boolean }): void;
  /** Opens the URL as a person's browser does and returns the URL that the response redirects to. */
  visit(authorization_url: string): Promise<string>;
  close(): Promise<void>;
}

export async function startAuthorizationServer(): Promise<AuthorizationServer> {
  const codes = new Map<string, Form>();
  const access_tokens = new Map<string, Token>();
  const refresh_tokens = new Map<string, Token>();
  const secrets = new Map<string, string>([["machine", "machine-secret-0123456789"]]);
  const server = createServer((request, response) => void handle(request, response));
  const address = await listen(server);
  const issuer = `http://${address}`;
  const issueSecret = (kind: string) => {
    const token = `${kind}-${randomBytes(24).toString("base64url")}`;
    authority.issued_secrets.push(token);
    return token;
  };
  const authority: AuthorizationServer = {
    issuer,
    address,
    token_requests: [],
    registrations: [],
    revoked: [],
    revoke_status: 200,
    issued_secrets: ["machine-secret-0123456789"],
    expires_in: 3_600,
    token_delay_ms: 0,
    consent: "yes",
    shows_page: false,
    wrong_resource: null,
    metadata: {
      issuer,
      authorization_endpoint: `${issuer}/authorize?tenant=1`,
      token_endpoint: `${issuer}/token`,
      registration_endpoint: `${issuer}/register`,
      revocation_endpoint: `${issuer}/revoke`,
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
      token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
      scopes_supported: ["notes", "offline_access"],
    },
    findToken(token, resource) {
      const known = access_tokens.get(token);
      return known !== undefined && known.expires_at > Date.now() && known.resource === resource
        ? known
        : null;
    },
    revokeAll(options = {}) {
      access_tokens.clear();
      if (options.refresh === true) refresh_tokens.clear();
    },
    async visit(authorization_url) {
      const response = await fetch(authorization_url, { redirect: "manual" });
      return response.headers.get("location")!;
    },
    close: () => closeServer(server),
  };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const url = new URL(request.url!, issuer);
    const body = await readBody(request);
    if (url.pathname === "/.well-known/oauth-authorization-server")
      return sendJson(response, 200, authority.metadata);
    if (url.pathname === "/authorize") return authorize(url, response);
    if (url.pathname === "/register") {
      authority.registrations.push(JSON.parse(body) as Record<string, unknown>);
      return sendJson(response, 201, { client_id: `client-${authority.registrations.length}` });
    }
    if (url.pathname === "/revoke") {
      const { token, token_type_hint } = formOf(body);
      if (authority.revoke_status !== 200)
        return sendJson(response, authority.revoke_status, { error: `about ${token}` });
      if (!token!.startsWith(token_type_hint!.replace("_token", "-"))) return sendJson(response, 400, {});
      authority.revoked.push(token!);
      refresh_tokens.delete(token!);
      access_tokens.delete(token!);
      return sendJson(response, 200, {});
    }
    if (url.pathname === "/token") {
      if (authority.token_delay_ms > 0)
        await new Promise((done) => setTimeout(done, authority.token_delay_ms));
      return respondWithTokens(request, formOf(body), response);
    }
    return sendJson(response, 404, {});
  }

  function authorize(url: URL, response: ServerResponse): ServerResponse {
    if (authority.shows_page && !url.searchParams.has("agreed")) {
      const next = `${url.pathname}${url.search}&agreed=1`.replaceAll("&", "&amp;");
      return response.writeHead(200, { "content-type": "text/html" }).end(`<a href="${next}">Agree</a>`);
    }
    const parameters = Object.fromEntries(url.searchParams);
    const redirect = new URL(parameters.redirect_uri!);
    redirect.searchParams.set("state", parameters.state!);
    redirect.searchParams.set("iss", issuer);
    if (authority.consent === "no") redirect.searchParams.set("error", "access_denied");
    else {
      const code = issueSecret("code");
      codes.set(code, parameters);
      redirect.searchParams.set("code", code);
    }
    return response.writeHead(302, { location: redirect.href }).end();
  }

  function respondWithTokens(request: IncomingMessage, form: Form, response: ServerResponse): ServerResponse {
    authority.token_requests.push(form);
    const reject = (error: string) =>
      sendJson(response, 400, { error, error_description: `because of ${form.code ?? form.refresh_token}` });
    if (form.grant_type === "client_credentials") {
      const basic = /^Basic (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
      const [id = "", secret] = Buffer.from(basic, "base64").toString().split(":");
      if (secrets.get(id) !== secret || secret === undefined) return reject("invalid_client");
      return issueTokens(
        response,
        { client_id: id, resource: form.resource!, scope: form.scope ?? "", expires_at: 0 },
        false,
      );
    }
    if (form.grant_type === "refresh_token") {
      const refreshed = refresh_tokens.get(form.refresh_token!);
      refresh_tokens.delete(form.refresh_token!);
      if (refreshed === undefined || refreshed.client_id !== form.client_id) return reject("invalid_grant");
      return issueTokens(response, refreshed, true);
    }
    const requested = codes.get(form.code ?? "");
    codes.delete(form.code ?? "");
    const proof = createHash("sha256")
      .update(form.code_verifier ?? "")
      .digest("base64url");
    const valid =
      requested !== undefined &&
      requested.client_id === form.client_id &&
      requested.redirect_uri === form.redirect_uri &&
      requested.resource === form.resource &&
      requested.code_challenge === proof &&
      requested.code_challenge_method === "S256";
    if (!valid) return reject("invalid_grant");
    return issueTokens(
      response,
      {
        client_id: form.client_id!,
        resource: requested.resource!,
        scope: requested.scope ?? "",
        expires_at: 0,
      },
      true,
    );
  }

  function issueTokens(response: ServerResponse, token: Token, with_refresh: boolean): ServerResponse {
    const resource = authority.wrong_resource ?? token.resource;
    const access_token = issueSecret("access");
    access_tokens.set(access_token, {
      ...token,
      resource,
      expires_at: Date.now() + authority.expires_in * 1_000,
    });
    const response_body = {
      access_token,
      token_type: "Bearer",
      expires_in: authority.expires_in,
      scope: token.scope,
    };
    if (!with_refresh) return sendJson(response, 200, response_body);
    const refresh_token = issueSecret("refresh");
    refresh_tokens.set(refresh_token, token);
    return sendJson(response, 200, { ...response_body, refresh_token });
  }

  return authority;
}

export interface ProtectedServer {
  url: string;
  address: string;
  /** The scope that a tool call needs; all other requests need `notes`. */
  call_scope: string;
  /** Method and Authorization header of each request. */
  seen: { method: string; authorization: string | undefined }[];
  /** The `resource` in the metadata. */
  resource: string;
  close(): Promise<void>;
}

/** A server of revision 2026-07-28 with the tool `whoami`, which returns the client of the token. */
export async function startProtectedServer(authority: AuthorizationServer): Promise<ProtectedServer> {
  const server = createServer((request, response) => void handle(request, response));
  const address = await listen(server);
  const url = `http://${address}/mcp`;
  const metadata = `http://${address}/.well-known/oauth-protected-resource/mcp`;
  const protected_server: ProtectedServer = {
    url,
    address,
    call_scope: "notes",
    seen: [],
    resource: url,
    close: () => closeServer(server),
  };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const body = await readBody(request);
    if (request.url === new URL(metadata).pathname) {
      return sendJson(response, 200, {
        resource: protected_server.resource,
        authorization_servers: [authority.issuer],
      });
    }
    if (request.method !== "POST") return response.writeHead(405).end();
    const { id, method } = JSON.parse(body) as { id?: number; method: string };
    const { authorization } = request.headers;
    protected_server.seen.push({ method, authorization });
    const token = authority.findToken(authorization?.replace(/^Bearer /, "") ?? "", url);
    if (token === null) {
      const challenge = `Bearer error="invalid_token", scope="notes", resource_metadata="${metadata}"`;
      return sendJson(response, 401, { error: "invalid_token" }, { "www-authenticate": challenge });
    }
    const needs = method === "tools/call" ? protected_server.call_scope : "notes";
    if (!token.scope.split(" ").includes(needs)) {
      const challenge = `Bearer error="insufficient_scope", scope="${needs}", resource_metadata="${metadata}"`;
      return sendJson(response, 403, { error: "insufficient_scope" }, { "www-authenticate": challenge });
    }
    if (id === undefined) return response.writeHead(202).end();
    const results: Record<string, object> = {
      "server/discover": { supportedVersions: ["2026-07-28"], capabilities: { tools: {} } },
      "tools/list": { tools: [{ name: "whoami", inputSchema: { type: "object" } }] },
      // This server echoes the credential, so that tests can check its redaction.
      "tools/call": { content: [{ type: "text", text: `${token.client_id} ${authorization}` }] },
    };
    return sendJson(response, 200, {
      jsonrpc: "2.0",
      id,
      result: { resultType: "complete", ...results[method] },
    });
  }

  return protected_server;
}

function formOf(body: string): Form {
  return Object.fromEntries(new URLSearchParams(body));
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

function sendJson(
  response: ServerResponse,
  status: number,
  value: object,
  headers: Form = {},
): ServerResponse {
  return response
    .writeHead(status, { "content-type": "application/json", ...headers })
    .end(JSON.stringify(value));
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((done) => server.close(() => done()));
}
