/**
 * Requests to the repositories of registries: authentication and redirects. A credential belongs to the host that it is
 * stored for (docs/decisions/0019-credentials-and-destinations.md): it is sent only to that host and to its known token
 * server, whatever a redirect or a challenge says.
 */
import { BackplaneError, isObject } from "@backplane/contract";
import { invalidResponse, unreachableRegistry } from "./registry-errors.ts";
import type { RegistryLimits } from "./registry-limits.ts";
import type { RegistryRequest, RegistryResponse, SendToRegistry } from "./registry-requests.ts";

export interface RegistryCredential {
  username: string;
  /** A password, or a token that the registry accepts as one. */
  password: string;
}

/** The credential for this host, with its port; null if there is none. */
export type FindCredential = (registry: string) => Promise<RegistryCredential | null>;

export interface SessionOptions {
  send: SendToRegistry;
  credentials: FindCredential;
  limits: RegistryLimits;
  /** Registries, with their port, that are reached without TLS. Loopback needs no entry. */
  insecure: readonly string[];
}

type Action = "pull" | "pull,push";

export interface RepositoryRequest extends Omit<RegistryRequest, "url" | "headers"> {
  registry: string;
  repository: string;
  action: Action;
  /** A path below `/v2/REPOSITORY/`, or an absolute URL that the registry sent. */
  path: string | URL;
  headers?: Record<string, string>;
}

export interface SessionResponse extends RegistryResponse {
  url: URL;
}

/** Token servers that belong to a registry under another host name. */
const TOKEN_HOSTS: Readonly<Record<string, string>> = {
  "registry-1.docker.io": "auth.docker.io",
  "registry.gitlab.com": "gitlab.com",
};

/**
 * The credential that a request used: the one that is stored for the registry, or none because none is stored, the
 * registry did not ask for one, or the token server must not receive it.
 */
type CredentialUse = "stored" | "none" | "not-requested" | { withheld_from: string };

interface Authorization {
  header: string;
  use: CredentialUse;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const MAX_TOKEN = 16 * 1024;

export class RegistrySession {
  readonly #options: SessionOptions;
  /** By registry, repository and action. */
  readonly #authorizations = new Map<string, Authorization>();

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Resolves to any status but 401 and 403, which throw `registry.denied`. The caller reads or discards the body. */
  async request(request: RepositoryRequest): Promise<SessionResponse> {
    const key = `${request.registry} ${request.repository} ${request.action}`;
    const known = this.#authorizations.get(key);
    const first = await this.#follow(request, known?.header);
    // A storage server behind a redirect must not decide where credentials are sent.
    if (first.status !== 401 || this.#isElsewhere(request, first))
      return this.#requirePermitted(request, first, known?.use ?? "not-requested");
    await discardBody(first, this.#options.limits.message_bytes);
    const authorization = await this.#authorize(request, first);
    this.#authorizations.set(key, authorization);
    const second = await this.#follow(request, authorization.header);
    return this.#requirePermitted(request, second, authorization.use);
  }

  #requirePermitted(
    request: RepositoryRequest,
    response: SessionResponse,
    use: CredentialUse,
  ): SessionResponse {
    if (response.status !== 401 && response.status !== 403) return response;
    response.body.destroy();
    throw this.#isElsewhere(request, response) ? deniedElsewhere(request, response) : denied(request, use);
  }

  #isElsewhere({ registry }: RepositoryRequest, { url }: SessionResponse): boolean {
    return url.origin !== this.#baseOf(registry).origin;
  }

  /** Each redirect is a new destination: its address is checked again, and it gets no credential of another origin. */
  async #follow(request: RepositoryRequest, authorization: string | undefined): Promise<SessionResponse> {
    const { registry, repository, method, signal, body } = request;
    const base = this.#baseOf(registry);
    let url =
      typeof request.path === "string" ? new URL(`v2/${repository}/${request.path}`, base) : request.path;
    for (let hops = 0; ; hops++) {
      this.#requireAllowed(url, registry);
      // Neither a redirect nor an upload address may downgrade from TLS to plain HTTP.
      if (base.protocol === "https:" && url.protocol !== "https:")
        throw invalidResponse(registry, `leads to ${url.host} without TLS`);
      const headers = {
        "user-agent": "backplane",
        ...request.headers,
        ...(authorization !== undefined && url.origin === base.origin ? { authorization } : {}),
      };
      const response = await this.#options.send({
        method,
        url,
        headers,
        signal,
        ...(body === undefined ? {} : { body }),
      });
      const { location } = response.headers;
      if (!REDIRECTS.has(response.status) || location === undefined) return { ...response, url };
      response.body.destroy();
      // A body is never sent to the target of a redirect.
      if (method !== "GET" && method !== "HEAD")
        throw invalidResponse(registry, `redirects a ${method} request`);
      if (hops >= this.#options.limits.redirects) throw invalidResponse(registry, "redirects too often");
      if (!URL.canParse(location, url)) throw invalidResponse(registry, "redirects to an invalid URL");
      url = new URL(location, url);
    }
  }

  #baseOf(registry: string): URL {
    const host = registry === "docker.io" ? "registry-1.docker.io" : registry;
    return new URL(`${this.#isPlain(host) ? "http" : "https"}://${host}/`);
  }

  #isPlain(host: string): boolean {
    return (
      this.#options.insecure.includes(host) ||
      /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$/.test(host)
    );
  }

  #requireAllowed(url: URL, registry: string): void {
    if (url.username !== "" || url.password !== "")
      throw invalidResponse(registry, "names a URL with credentials");
    if (url.protocol === "https:" || (url.protocol === "http:" && this.#isPlain(url.host))) return;
    throw invalidResponse(registry, `names ${url.protocol}//${url.host}, which is not an https URL`);
  }

  /** Throws `registry.denied` if the challenge requires a credential that is not stored. */
  async #authorize(request: RepositoryRequest, response: SessionResponse): Promise<Authorization> {
    const { registry } = request;
    const base = this.#baseOf(registry);
    const challenge = parseChallenge(response.headers["www-authenticate"]);
    if (challenge === null)
      throw invalidResponse(registry, "requires a login but does not send a valid challenge");
    const credential = await this.#options.credentials(registry);
    if (challenge.scheme === "basic") {
      if (credential === null) throw denied(request, "none");
      return { header: basicHeader(credential), use: "stored" };
    }
    const realm = URL.canParse(challenge.realm) ? new URL(challenge.realm) : null;
    if (realm === null) throw invalidResponse(registry, "names an invalid token server");
    this.#requireAllowed(realm, registry);
    if (base.protocol === "https:" && realm.protocol !== "https:")
      throw invalidResponse(registry, `names the token server ${realm.host} without TLS`);
    const is_trusted_realm = realm.host === base.host || realm.host === TOKEN_HOSTS[base.host];
    const sent = is_trusted_realm ? credential : null;
    const use = sent !== null ? "stored" : credential === null ? "none" : { withheld_from: realm.host };
    const token = await this.#fetchToken(request, realm, challenge.service, sent, use);
    return { header: `Bearer ${token}`, use };
  }

  async #fetchToken(
    request: RepositoryRequest,
    realm: URL,
    service: string | null,
    credential: RegistryCredential | null,
    use: CredentialUse,
  ): Promise<string> {
    const { registry, repository, action, signal } = request;
    const url = new URL(realm);
    if (service !== null) url.searchParams.set("service", service);
    // The scope of the challenge is not used, because it could name another repository.
    url.searchParams.set("scope", `repository:${repository}:${action}`);
    const headers: Record<string, string> =
      credential === null ? {} : { authorization: basicHeader(credential) };
    const response = await this.#options.send({ method: "GET", url, headers, signal });
    if (response.status === 401 || response.status === 403) {
      response.body.destroy();
      throw denied(request, use);
    }
    if (response.status !== 200) {
      response.body.destroy();
      throw unreachableRegistry(registry, `its token server ${url.host} returned HTTP ${response.status}`);
    }
    const text = await readBody(response, this.#options.limits.message_bytes, `${url.host} (token server)`);
    let json: unknown;
    try {
      json = JSON.parse(text.toString("utf8"));
    } catch {
      throw invalidResponse(url.host, "sent a token response that is not JSON");
    }
    const token = isObject(json) ? (json.token ?? json.access_token) : undefined;
    if (typeof token !== "string" || token.length > MAX_TOKEN || !/^[\x21-\x7e]+$/.test(token))
      throw invalidResponse(url.host, "did not send a usable token");
    return token;
  }
}

interface BearerChallenge {
  scheme: "bearer";
  realm: string;
  service: string | null;
}

/** Prefers Bearer to Basic, because a registry that offers both expects the password only at its token server. */
function parseChallenge(header: string | undefined): BearerChallenge | { scheme: "basic" } | null {
  const text = (header ?? "").slice(0, 4_096);
  const at = /(?:^|,\s*)bearer\s+/i.exec(text);
  if (at !== null) {
    const fields = new Map<string, string>();
    for (const [, name, quoted, plain] of text
      .slice(at.index + at[0].length)
      .matchAll(/([a-z_]{1,32})=(?:"([^"]*)"|([^\s,"]+))/gi))
      if (!fields.has(name!.toLowerCase())) fields.set(name!.toLowerCase(), quoted ?? plain ?? "");
    const realm = fields.get("realm");
    if (realm !== undefined) return { scheme: "bearer", realm, service: fields.get("service") ?? null };
  }
  return /(?:^|,\s*)basic(?:\s|,|$)/i.test(text) ? { scheme: "basic" } : null;
}

function basicHeader({ username, password }: RegistryCredential): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/** Throws `registry.invalid` for a larger body, without reading the rest. */
export async function readBody(
  response: RegistryResponse,
  max_bytes: number,
  registry: string,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > max_bytes)
        throw invalidResponse(registry, `sent a response of more than ${max_bytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    response.body.destroy();
    if (error instanceof BackplaneError) throw error;
    throw unreachableRegistry(registry, "the connection was lost", error);
  }
  return Buffer.concat(chunks);
}

/** Reads a short body, so that the connection can be used again. */
export async function discardBody(response: RegistryResponse, max_bytes: number): Promise<void> {
  await readBody(response, max_bytes, "").catch(() => response.body.destroy());
}

function denied({ registry, repository }: RepositoryRequest, use: CredentialUse): BackplaneError {
  const [message, fix] = explainDenial(registry, repository, use);
  return new BackplaneError("registry.denied", message, { fix, details: { registry, repository } });
}

function explainDenial(
  registry: string,
  repository: string,
  use: CredentialUse,
): [message: string, fix: string] {
  const secret = `registry_${registry.replace(":", "_")}`;
  const store = `\`docker login ${registry}\` for plugin push and pull; \`backplane secret set ${secret}\`, with the value USER:PASSWORD, for an installation`;
  if (use === "stored")
    return [
      `${registry} does not grant the stored credential access to ${repository}.`,
      `Check the name of the repository and the permissions of the credential, or store another one: ${store}.`,
    ];
  if (use === "none")
    return [
      `${registry} does not allow anonymous access to ${repository}, and no credential is stored for ${registry}.`,
      `Store a credential: ${store}.`,
    ];
  if (use === "not-requested")
    return [
      `${registry} refuses access to ${repository} and does not ask for a login.`,
      `Check the name of the repository, and ask the operator of ${registry} who may access it.`,
    ];
  return [
    `${registry} does not allow anonymous access to ${repository}. Its token server ${use.withheld_from} is not known to belong to ${registry}, so the stored credential was not sent.`,
    `Use a registry whose token server has the host of the registry, or make the repository public.`,
  ];
}

/** For a refusal by the target of a redirect, or of an upload address, on another host. */
function deniedElsewhere({ registry, repository }: RepositoryRequest, { url, status }: SessionResponse) {
  return new BackplaneError(
    "registry.denied",
    `${registry} sent the request for ${repository} on to ${url.host}, which refused it with HTTP ${status}. The credential for ${registry} is never sent to another host.`,
    {
      fix: `Try again, because such an address can expire. If it is refused again, report it to the operator of ${registry}.`,
      details: { registry, repository, host: url.host, status },
    },
  );
}
