/**
 * The MCP servers behind bindings, for whoever may see the binding: what they are, requests beyond tool calls, and what
 * they tell by themselves. Reading something of a server's is written to the audit log, with the address or name alone;
 * lists, completion and log levels are not, because clients ask for them all the time.
 */

import {
  BackplaneError,
  createRedactor,
  type Json,
  type JsonObject,
  serverName,
  toBackplaneError,
} from "@backplane/contract";
import {
  type AdmissionState,
  admitServerRequest,
  type Coverage,
  changedParts,
  filterCapabilities,
  findFeature,
  planServerFeature,
  readUseCoverage,
  type ServerFeature,
} from "@backplane/door";
import {
  auditOf,
  type BoundPackage,
  type Caller,
  type KernelDeps,
  rejectUnanswered,
  type ServerInfo,
  type ServerLine,
  type Servers,
} from "@backplane/ports";
import {
  bindsWholePackage,
  createProcessOrder,
  type EffectivePolicy,
  type Policies,
  type SignInTokens,
  sendProcessRequest,
  takesTraffic,
} from "@backplane/registry";
import type { ApprovedRequest } from "./ask-first.ts";
import { REQUEST_MS } from "./request-tool.ts";

const FRESH_MS = 1_000;
const KEPT = 256;
const RECORDED: ReadonlySet<string> = new Set(["resources/read", "prompts/get", "resources/subscribe"]);
const PROTOCOLS: ReadonlySet<string> = new Set(["mcp.stdio", "mcp.http"]);
const NONE: readonly ServerInfo[] = [];

export interface ServersService {
  facade: Servers;
  /** After a change of bindings or definitions on this node. */
  forget(): void;
}

interface Wanted {
  caller: Caller;
  binding_id: string;
  method: string;
  params: JsonObject;
}

interface Known {
  at: number;
  reading: Promise<readonly ServerInfo[]>;
}

export function createServers(
  deps: KernelDeps,
  policies: Pick<Policies, "of">,
  tokens: SignInTokens,
  state: AdmissionState,
  askFirst: ApprovedRequest,
): ServersService {
  const { store, runner, clock } = deps;
  const known = new Map<string, Known>();
  const behind = new WeakMap<ServerInfo, BoundPackage>();

  async function read(caller: Caller, before: readonly ServerInfo[]): Promise<readonly ServerInfo[]> {
    const bound = await store.bindings.discover(caller.scope, "tool");
    const servers: ServerInfo[] = [];
    const used: BoundPackage[] = [];
    for (const one of inOrder(bound.filter(isServer))) {
      const { binding, package: pack } = one;
      const definitions = await store.definitions.get(binding.scope.org_id, binding.binding_id);
      if (definitions === null) continue;
      const { capabilities, instructions } = definitions.info;
      used.push(one);
      servers.push({
        name: freeName(servers, serverName(pack.package_id)),
        binding_id: binding.binding_id,
        package_id: pack.package_id,
        capabilities: isObject(capabilities) ? capabilities : {},
        instructions: typeof instructions === "string" ? instructions : null,
        tools: definitions.exports.map(({ id, tool }) => ({ name: tool.native_name ?? id, export_id: id })),
      });
    }
    // Whoever keeps what was made of the list before may go on with it.
    const told = JSON.stringify(servers) === JSON.stringify(before) ? before : servers;
    for (const [i, server] of told.entries()) behind.set(server, used[i]!);
    return told;
  }

  /** Each with what its resources and prompts are to this caller's policy. */
  async function list(caller: Caller): Promise<readonly ServerInfo[]> {
    const servers = await listed(caller);
    const policy = await policies.of(caller.scope);
    const shown: ServerInfo[] = [];
    for (const server of servers) {
      const bound = behind.get(server)!;
      const planOf = (part: ServerFeature) => planServerFeature(bound, part, caller.scope, deps.host);
      const capabilities = filterCapabilities(server.capabilities, planOf, caller, policy);
      shown.push(capabilities === server.capabilities ? server : { ...server, capabilities });
    }
    return shown.every((one, i) => one === servers[i]) ? servers : shown;
  }

  async function listed(caller: Caller): Promise<readonly ServerInfo[]> {
    // A plugin's own token names tools; what a server has beside them is not granted by that.
    if (caller.delegation !== undefined) return NONE;
    // Read at every request, as for calls: what may not be used is not there.
    if (!allowsServers(await policies.of(caller.scope), caller)) return NONE;
    const key = `${caller.scope.org_id}\n${caller.scope.project_id}`;
    const now = clock.monotonic();
    const there = known.get(key);
    if (there !== undefined && now - there.at < FRESH_MS) return await there.reading;
    const before = there === undefined ? NONE : await there.reading.catch(() => NONE);
    const reading = read(caller, before);
    known.delete(key);
    known.set(key, { at: now, reading });
    if (known.size > KEPT) known.delete(known.keys().next().value!);
    reading.catch(() => known.delete(key));
    return await reading;
  }

  /** The server behind a binding, where this caller may ask it that; `why`: a person is to be asked first. */
  async function admitted(wanted: Wanted): Promise<{ bound: BoundPackage; why: string | null }> {
    const { caller, binding_id, method, params } = wanted;
    const visible = (await listed(caller)).some((one) => one.binding_id === binding_id);
    const bound = visible ? await store.bindings.get(caller.scope, binding_id) : null;
    if (bound === null || !isServer(bound)) throw new BackplaneError("binding.not_found");
    const part = findFeature(method, params);
    if (part === null) return { bound, why: null };
    const plan = planServerFeature(bound, part, caller.scope, deps.host);
    try {
      const policy = await policies.of(caller.scope);
      return { bound, why: await admitServerRequest(plan, caller, policy, state, method, params) };
    } catch (error) {
      await auditRefusal(wanted, error);
      throw error;
    }
  }

  /** After the yes everything is looked at again, because the wait may have been long. */
  async function afterYes(wanted: Wanted, bound: BoundPackage, why: string, line: ServerLine): Promise<Json> {
    const { caller, binding_id, method, params } = wanted;
    const { package_id } = bound.package;
    const { parts } = await covered(wanted, bound);
    let answered = false;
    try {
      return await askFirst(caller, { binding_id, package_id, method, params, why }, line, async () => {
        answered = true;
        const now = await admitted(wanted);
        const changed = changedParts(parts, (await covered(wanted, now.bound)).parts);
        if (changed.length > 0) throw changedMeanwhile(changed);
        return await put(wanted, now.bound, line);
      });
    } catch (error) {
      if (!answered) await auditRefusal(wanted, error);
      throw error;
    }
  }

  /** Everything that decides what the request does, as for a call of a tool. */
  async function covered({ caller, method, params }: Wanted, bound: BoundPackage): Promise<Coverage> {
    const { grant } = await createProcessOrder(deps, policies, bound, caller.scope);
    return await readUseCoverage(deps, bound, { tool: method, definition: null, arguments: params, grant });
  }

  async function put(wanted: Wanted, bound: BoundPackage, line: ServerLine): Promise<Json> {
    const { caller, method, params } = wanted;
    const { request: askServer } = runner;
    if (askServer === undefined)
      throw new BackplaneError("package.invalid", "this gateway runs no MCP servers");
    await audit(wanted);
    const order = await createProcessOrder(deps, policies, bound, caller.scope);
    return await sendProcessRequest(tokens, bound, order, async (given) => {
      const redactor = createRedactor(Object.values(given.context.secrets));
      const clean = <T extends Json>(value: T): T =>
        redactor === null ? value : (redactor.json(value) as T);
      const answer = await askServer(
        { ...given, method, params, timeout_ms: REQUEST_MS },
        {
          notify: (about, told) => line.notify(about, clean(told)),
          ask: (about, asked, key) => line.ask(about, clean(asked), key) ?? rejectUnanswered(about),
        },
      );
      return clean(answer);
    });
  }

  async function audit({ caller, binding_id, method, params }: Wanted): Promise<void> {
    if (!RECORDED.has(method)) return;
    const what = { method, ...named(params) };
    await store.audit.append(auditOf(deps, caller, "server.request", binding_id, what));
  }

  async function auditRefusal({ caller, binding_id, method, params }: Wanted, error: unknown): Promise<void> {
    const refused = { method, ...named(params), refused: toBackplaneError(error).message };
    await store.audit.append(auditOf(deps, caller, "server.request", binding_id, refused));
  }

  return {
    forget() {
      for (const one of known.values()) one.at = Number.NEGATIVE_INFINITY;
    },
    facade: {
      list,
      async check(caller, binding_id, method, params) {
        const wanted = { caller, binding_id, method, params };
        await admitted(wanted);
        await audit(wanted);
      },
      async request(caller, binding_id, method, params, line) {
        const wanted = { caller, binding_id, method, params };
        const { bound, why } = await admitted(wanted);
        return why === null ? await put(wanted, bound, line) : await afterYes(wanted, bound, why, line);
      },
      onNotice: (listener) => runner.onNotice?.(listener) ?? (() => undefined),
    },
  };
}

function changedMeanwhile(changed: string[]): BackplaneError {
  const message = `${changed.join(", ")} changed after the approval was asked for`;
  return new BackplaneError("approval.changed", message, { details: { changed } });
}

function isServer(bound: BoundPackage): boolean {
  return (
    bindsWholePackage(bound) && takesTraffic(bound) && PROTOCOLS.has(bound.package.manifest.runtime.protocol)
  );
}

/** Denial comes first, as for tools; of the server as a whole a rule knows its origin alone. */
function allowsServers({ origins, roles }: EffectivePolicy, { role }: Caller): boolean {
  if (origins?.has("mcp") === false) return false;
  return (roles.get(role) ?? []).every(
    ({ allow, deny }) => deny?.origins?.has("mcp") !== true && allow?.origins?.has("mcp") !== false,
  );
}

/** A project's binding of a package stands for the org's of the same one. */
function inOrder(bound: readonly BoundPackage[]): BoundPackage[] {
  const own = new Set<string>();
  const sorted = [...bound].sort((a, b) => {
    const [first, second] = [a, b].map(({ binding }) => (binding.scope.project_id === null ? 1 : 0));
    return first! - second! || (a.binding.created_at < b.binding.created_at ? -1 : 1);
  });
  return sorted.filter(({ binding }) => {
    if (binding.scope.project_id !== null) own.add(binding.package_id);
    return binding.scope.project_id !== null || !own.has(binding.package_id);
  });
}

/** Two packages may end alike: the later binding's server gets a number. */
function freeName(taken: readonly ServerInfo[], name: string): string {
  let free = name;
  for (let n = 2; taken.some((one) => one.name === free); n++) free = `${name}-${n}`;
  return free;
}

function named({ uri, name }: JsonObject): JsonObject {
  if (typeof uri === "string") return { uri: uri.slice(0, 1_024) };
  return typeof name === "string" ? { name: name.slice(0, 256) } : {};
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
