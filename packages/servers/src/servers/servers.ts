/**
 * The MCP servers behind bindings, for callers who may see the binding: their capabilities, requests other than tool
 * calls, and notifications. Reads of and subscriptions to resources, reads of prompts, and refused requests are
 * written to the audit log with the URI or name; allowed lists, completions and log levels are not, because clients
 * request them all the time.
 */

import {
  BackplaneError,
  boundServerName,
  createRedactor,
  isObject,
  type Json,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import {
  type AdmissionState,
  admitServerRequest,
  type Coverage,
  filterCapabilities,
  findFeature,
  listChangedParts,
  planServerFeature,
  readUseCoverage,
  type ServerFeature,
} from "@backplane/door";
import {
  answerByDefault,
  type BoundPackage,
  buildAudit,
  type Caller,
  type KernelDeps,
  type ServerInfo,
  type ServerRequestListener,
  type Servers,
} from "@backplane/ports";
import {
  bindsWholePackage,
  createProcessRequest,
  type EffectivePolicy,
  type Policies,
  type SignInTokens,
  sendProcessRequest,
  sortProjectFirst,
  takesTraffic,
} from "@backplane/registry";
import { REQUEST_MS, type SendApprovedRequest } from "./approved-request.ts";

const FRESH_MS = 1_000;
const MAX_CACHED_SCOPES = 256;
const AUDITED_METHODS: ReadonlySet<string> = new Set([
  "resources/read",
  "prompts/get",
  "resources/subscribe",
]);
const MCP_PROTOCOLS: ReadonlySet<string> = new Set(["mcp.stdio", "mcp.http"]);
const NO_SERVERS: readonly ServerInfo[] = [];

interface ServersService {
  facade: Servers;
  /** Expires the cached lists after the catalog has changed on this node. */
  expireLists(): void;
}

interface ServerRequest {
  caller: Caller;
  binding_id: string;
  method: string;
  params: JsonObject;
}

interface ServerAccess {
  bound: BoundPackage;
  /** Why the request needs an approval first; null if it does not need one. */
  approval_reason: string | null;
}

interface CachedList {
  at: number;
  reading: Promise<readonly ServerInfo[]>;
}

export function createServers(
  deps: KernelDeps,
  policies: Pick<Policies, "getEffective">,
  tokens: SignInTokens,
  state: AdmissionState,
  sendApprovedRequest: SendApprovedRequest,
): ServersService {
  const { store, runner, clock } = deps;
  const cached_lists = new Map<string, CachedList>();
  const bound_packages = new WeakMap<ServerInfo, BoundPackage>();

  async function readServers(
    caller: Caller,
    previous: readonly ServerInfo[],
  ): Promise<readonly ServerInfo[]> {
    const bound = await store.bindings.discover(caller.scope, "tool");
    const servers: ServerInfo[] = [];
    const bound_servers: BoundPackage[] = [];
    for (const server of dropShadowed(bound.filter(isServer))) {
      const { binding, package: pack } = server;
      const definitions = await store.definitions.get(binding.scope.org_id, binding.binding_id);
      if (definitions === null) continue;
      const { capabilities, instructions } = definitions.info;
      bound_servers.push(server);
      servers.push({
        name: findFreeName(servers, boundServerName(binding)),
        binding_id: binding.binding_id,
        package_id: pack.package_id,
        capabilities: isObject(capabilities) ? capabilities : {},
        instructions: typeof instructions === "string" ? instructions : null,
        tools: definitions.exports.map(({ id, tool }) => ({ name: tool.native_name ?? id, export_id: id })),
      });
    }
    // An unchanged list keeps its identity, so that readers can reuse values that they derived from it.
    const result = JSON.stringify(servers) === JSON.stringify(previous) ? previous : servers;
    for (const [i, server] of result.entries()) bound_packages.set(server, bound_servers[i]!);
    return result;
  }

  /** Lists the servers with the capabilities that the policy allows this caller to use. */
  async function list(caller: Caller): Promise<readonly ServerInfo[]> {
    const servers = await listCached(caller);
    const policy = await policies.getEffective(caller.scope);
    const visible: ServerInfo[] = [];
    for (const server of servers) {
      const bound = bound_packages.get(server)!;
      const planOf = (feature: ServerFeature) => planServerFeature(bound, feature, caller.scope, deps.host);
      const capabilities = filterCapabilities(server.capabilities, planOf, caller, policy);
      visible.push(capabilities === server.capabilities ? server : { ...server, capabilities });
    }
    return visible.every((server, i) => server === servers[i]) ? servers : visible;
  }

  async function listCached(caller: Caller): Promise<readonly ServerInfo[]> {
    // A delegated token grants tools only, not the resources and prompts of servers.
    if (caller.delegation !== undefined) return NO_SERVERS;
    // The policy is read for every request, as it is for calls.
    if (!allowsServers(await policies.getEffective(caller.scope), caller)) return NO_SERVERS;
    const key = `${caller.scope.org_id}\n${caller.scope.project_id}`;
    const now = clock.monotonic();
    const cached = cached_lists.get(key);
    if (cached !== undefined && now - cached.at < FRESH_MS) return await cached.reading;
    const previous = cached === undefined ? NO_SERVERS : await cached.reading.catch(() => NO_SERVERS);
    const reading = readServers(caller, previous);
    cached_lists.delete(key);
    cached_lists.set(key, { at: now, reading });
    if (cached_lists.size > MAX_CACHED_SCOPES) cached_lists.delete(cached_lists.keys().next().value!);
    reading.catch(() => cached_lists.delete(key));
    return await reading;
  }

  /** Returns the server if the caller may send it this request, possibly after an approval. */
  async function checkAccess(request: ServerRequest): Promise<ServerAccess> {
    const { caller, binding_id, method, params } = request;
    const visible = (await listCached(caller)).some((server) => server.binding_id === binding_id);
    const bound = visible ? await store.bindings.get(caller.scope, binding_id) : null;
    if (bound === null || !isServer(bound)) throw new BackplaneError("binding.not_found");
    const feature = findFeature(method, params);
    if (feature === null) return { bound, approval_reason: null };
    const plan = planServerFeature(bound, feature, caller.scope, deps.host);
    try {
      const policy = await policies.getEffective(caller.scope);
      const approval_reason = await admitServerRequest(plan, caller, policy, state, method, params);
      return { bound, approval_reason };
    } catch (error) {
      await auditRefusal(request, error);
      throw error;
    }
  }

  /** After the approval every check runs again, because the wait may have been long. */
  async function sendAfterApproval(
    request: ServerRequest,
    bound: BoundPackage,
    reason: string,
    listener: ServerRequestListener,
  ): Promise<Json> {
    const { caller, binding_id, method, params } = request;
    const { package_id } = bound.package;
    const { parts } = await readCoverage(request, bound);
    let approved = false;
    try {
      return await sendApprovedRequest(
        caller,
        { binding_id, package_id, method, params, why: reason },
        listener,
        async () => {
          approved = true;
          const admitted = await checkAccess(request);
          const changed = listChangedParts(parts, (await readCoverage(request, admitted.bound)).parts);
          if (changed.length > 0) {
            const error = approvalChangedError(changed);
            await auditRefusal(request, error);
            throw error;
          }
          return await send(request, admitted.bound, listener);
        },
      );
    } catch (error) {
      if (!approved) await auditRefusal(request, error);
      throw error;
    }
  }

  /** Digests everything that decides what the request does, as for a tool call. */
  async function readCoverage(
    { caller, method, params }: ServerRequest,
    bound: BoundPackage,
  ): Promise<Coverage> {
    const { grant } = await createProcessRequest(deps, policies, bound, caller.scope);
    return await readUseCoverage(deps, bound, { tool: method, definition: null, arguments: params, grant });
  }

  async function send(
    request: ServerRequest,
    bound: BoundPackage,
    listener: ServerRequestListener,
  ): Promise<Json> {
    const { caller, method, params } = request;
    const { request: sendToServer } = runner;
    if (sendToServer === undefined)
      throw new BackplaneError("package.invalid", "This gateway cannot run MCP servers.");
    await audit(request);
    const process_request = await createProcessRequest(deps, policies, bound, caller.scope);
    return await sendProcessRequest(tokens, bound, process_request, async (prepared) => {
      const redactor = createRedactor(Object.values(prepared.context.secrets));
      const redact = <T extends Json>(value: T): T =>
        redactor === null ? value : (redactor.json(value) as T);
      const operation = listener.signal && { signal: listener.signal, report() {} };
      const answer = await sendToServer(
        { ...prepared, method, params, timeout_ms: REQUEST_MS },
        {
          notify: (name, details) => listener.notify(name, redact(details)),
          answerRequest: (server_method, server_params, key) =>
            listener.answerRequest(server_method, redact(server_params), key) ??
            answerByDefault(server_method),
        },
        operation,
      );
      return redact(answer);
    });
  }

  async function audit({ caller, binding_id, method, params }: ServerRequest): Promise<void> {
    if (!AUDITED_METHODS.has(method)) return;
    const details = { method, ...subjectOf(params) };
    await store.audit.append(buildAudit(deps, caller, "server.request", binding_id, details));
  }

  async function auditRefusal(
    { caller, binding_id, method, params }: ServerRequest,
    error: unknown,
  ): Promise<void> {
    const details = { method, ...subjectOf(params), refused: toBackplaneError(error).message };
    await store.audit.append(buildAudit(deps, caller, "server.request", binding_id, details));
  }

  return {
    expireLists() {
      for (const list of cached_lists.values()) list.at = Number.NEGATIVE_INFINITY;
    },
    facade: {
      list,
      async check(caller, binding_id, method, params) {
        const request = { caller, binding_id, method, params };
        await checkAccess(request);
        await audit(request);
      },
      async request(caller, binding_id, method, params, listener) {
        const request = { caller, binding_id, method, params };
        const { bound, approval_reason } = await checkAccess(request);
        return approval_reason === null
          ? await send(request, bound, listener)
          : await sendAfterApproval(request, bound, approval_reason, listener);
      },
      onNotification: (listener) => runner.onNotification?.(listener) ?? (() => undefined),
      listProcesses: async () => (await runner.listServers?.()) ?? [],
    },
  };
}

function approvalChangedError(changed: string[]): BackplaneError {
  const message = `The request changed after its approval was requested: ${changed.join(", ")}.`;
  return new BackplaneError("approval.changed", message, { details: { changed } });
}

function isServer(bound: BoundPackage): boolean {
  return (
    bindsWholePackage(bound) &&
    takesTraffic(bound) &&
    MCP_PROTOCOLS.has(bound.package.manifest.runtime.protocol)
  );
}

/** Denial takes precedence, as for tools. For the server as a whole a rule can match only its origin. */
function allowsServers({ origins, roles }: EffectivePolicy, { role }: Caller): boolean {
  if (origins?.has("mcp") === false) return false;
  return (roles.get(role) ?? []).every(
    ({ allow, deny }) => deny?.origins?.has("mcp") !== true && allow?.origins?.has("mcp") !== false,
  );
}

/** Drops the org's binding of a package that the project has bound itself. */
function dropShadowed(bound: readonly BoundPackage[]): BoundPackage[] {
  const project_bindings = bound.filter(({ binding }) => binding.scope.project_id !== null);
  const packages = new Set(project_bindings.map(({ binding }) => binding.package_id));
  return sortProjectFirst(bound).filter(
    ({ binding }) => binding.scope.project_id !== null || !packages.has(binding.package_id),
  );
}

/** Several servers may have the same name, such as the last part of a package id; later ones get a number as a suffix. */
function findFreeName(earlier: readonly ServerInfo[], name: string): string {
  let free = name;
  for (let n = 2; earlier.some((server) => server.name === free); n++) free = `${name}-${n}`;
  return free;
}

function subjectOf({ uri, name }: JsonObject): JsonObject {
  if (typeof uri === "string") return { uri: uri.slice(0, 1_024) };
  return typeof name === "string" ? { name: name.slice(0, 256) } : {};
}
