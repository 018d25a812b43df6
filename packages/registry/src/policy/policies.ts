/**
 * The policies of orgs and projects. They are read at every call, so that a change applies to the next call on
 * every node. The compiled policy is cached until its generations change, and returned without a promise when the
 * store has the rows in memory (benchmark http.invoke).
 */

import {
  BackplaneError,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
  type Policy,
  type PolicyLevel,
  type PolicyPatch,
  type PolicyView,
} from "@backplane/contract";
import {
  buildAudit,
  type Caller,
  type Changes,
  HOST_ADMIN,
  hasRole,
  type KernelDeps,
  type PolicyRow,
  type PolicyRows,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import { compilePolicy, type EffectivePolicy } from "./effective-policy.ts";
import { compileRules } from "./security-rules.ts";

interface CompiledEntry {
  generations: string;
  policy: EffectivePolicy;
}

const MAX_CACHED = 1_024;
const MAX_ATTEMPTS = 20;

export interface PoliciesDeps extends Pick<KernelDeps, "store" | "schemas" | "clock" | "ids" | "host"> {
  changes: Pick<Changes, "emit">;
}

export class Policies {
  readonly #deps: PoliciesDeps;
  readonly #cache = new Map<string, CompiledEntry>();

  constructor(deps: PoliciesDeps) {
    this.#deps = deps;
  }

  /** Returns the policy in effect for the scope. */
  getEffective(scope: Scope): MaybePromise<EffectivePolicy> {
    return mapMaybe(this.#deps.store.policies.get(scope), (rows) => this.#getCompiled(scope, rows));
  }

  #getCompiled(scope: Scope, { org, project }: PolicyRows): MaybePromise<EffectivePolicy> {
    const key = `${scope.org_id}\n${scope.project_id}`;
    const generations = `${org?.generation ?? 0}.${project?.generation ?? 0}`;
    const cached = this.#cache.get(key);
    if (cached?.generations === generations) return cached.policy;
    return this.#compile(org?.policy ?? {}, project?.policy ?? {}).then((policy) => {
      this.#cache.delete(key);
      this.#cache.set(key, { generations, policy });
      if (this.#cache.size > MAX_CACHED) this.#cache.delete(this.#cache.keys().next().value as string);
      return policy;
    });
  }

  async get(caller: Caller, level: PolicyLevel): Promise<PolicyView> {
    requireOperator(caller, "read the policy");
    const { scope, row } = await this.#find(caller, level);
    return await this.#buildView(level, scope, row);
  }

  put(caller: Caller, level: PolicyLevel, policy: Policy, expected?: number): Promise<PolicyView> {
    return this.#write(caller, level, () => policy, expected);
  }

  patch(caller: Caller, level: PolicyLevel, patch: PolicyPatch, expected?: number): Promise<PolicyView> {
    return this.#write(caller, level, (before) => applyPatch(before, patch), expected);
  }

  async #write(
    caller: Caller,
    level: PolicyLevel,
    change: (before: Policy) => Policy,
    expected: number | undefined,
  ): Promise<PolicyView> {
    requireAdmin(caller, level);
    const { store, clock } = this.#deps;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { scope, row } = await this.#find(caller, level);
      const generation = row?.generation ?? 0;
      if (expected !== undefined && expected !== generation) throw outdatedGenerationError(generation);
      const policy = change(row?.policy ?? {});
      // Compiling rejects an invalid rule before it is stored.
      await this.#compile(policy, {});
      const next: PolicyRow = {
        scope,
        policy,
        generation: generation + 1,
        updated_at: new Date(clock.now()).toISOString(),
        updated_by: caller.actor,
      };
      const details = { level, generation: next.generation, ...diffPolicies(row?.policy ?? {}, policy) };
      const audit = buildAudit(this.#deps, caller, "policy.set", `policy/${level}`, details);
      if (!(await store.policies.put(next, { audit }))) continue;
      this.#deps.changes.emit("policy.changed", { org_id: scope.org_id });
      return await this.#buildView(level, scope, next);
    }
    throw outdatedGenerationError(undefined);
  }

  async #find(caller: Caller, level: PolicyLevel): Promise<{ scope: Scope; row: PolicyRow | null }> {
    const { org_id, project_id } = caller.scope;
    if (level === "project" && project_id === null) {
      throw new BackplaneError(
        "request.invalid",
        "level=project needs a project, and the request specifies none.",
        {
          fix: "Send the Backplane-Project header, or use --project.",
        },
      );
    }
    const scope = { org_id, project_id: level === "org" ? null : project_id };
    const { org, project } = await this.#deps.store.policies.get(scope);
    return { scope, row: level === "org" ? org : project };
  }

  async #buildView(level: PolicyLevel, scope: Scope, row: PolicyRow | null): Promise<PolicyView> {
    const { document } = await this.getEffective(scope);
    return {
      level,
      ...scope,
      policy: row?.policy ?? {},
      effective: document,
      host_file: this.#hostFile(scope),
      generation: row?.generation ?? 0,
      updated_at: row?.updated_at ?? null,
      updated_by: row?.updated_by ?? null,
    };
  }

  #hostFile({ org_id, project_id }: Scope): JsonObject {
    const { host } = this.#deps;
    const { min_class, network, mounts, default_domains, max_timeout_ms, max_depth } = host;
    const limits = {
      max_timeout_ms,
      max_depth,
      min_class,
      network,
      mounts,
      default_domains,
      org: host.orgs?.get(org_id),
      project: host.projects?.get(`${org_id}/${project_id}`),
    };
    return JSON.parse(JSON.stringify(limits)) as JsonObject;
  }

  async #compile(org: Policy, project: Policy): Promise<EffectivePolicy> {
    const rules = await compileRules([...(org.rules ?? []), ...(project.rules ?? [])], this.#deps.schemas);
    return compilePolicy(org, project, rules);
  }
}

function requireAdmin(caller: Caller, level: PolicyLevel): void {
  requireOperator(caller, "change the policy");
  if (!hasRole(caller.role, "admin")) {
    throw new BackplaneError("policy.denied", "Only an owner or admin may change the policy.", {
      fix: "Ask an owner or admin.",
    });
  }
  if (level === "org" && caller.actor !== HOST_ADMIN && caller.scope.project_id !== null) {
    throw new BackplaneError(
      "policy.denied",
      "Only a caller of the whole organization may change its policy.",
      {
        fix: "Change the policy of the project instead: send level=project.",
      },
    );
  }
}

/** A null value resets a field to its default. */
function applyPatch(before: Policy, patch: PolicyPatch): Policy {
  const merged = { ...before, ...patch };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)) as Policy;
}

/** Lists the changed fields for the audit log. */
function diffPolicies(before: Policy, after: Policy): JsonObject {
  const changed: JsonObject = {};
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[field as keyof Policy], after[field as keyof Policy]];
    if (JSON.stringify(a) !== JSON.stringify(b))
      changed[field] = { from: (a ?? null) as Json, to: (b ?? null) as Json };
  }
  return { changed };
}

function outdatedGenerationError(generation: number | undefined): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: generation === undefined ? {} : { generation },
  });
}
