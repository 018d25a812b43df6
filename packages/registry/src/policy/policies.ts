/**
 * The policies of orgs and projects. Read at every call, so that a change holds from the next call on, on every node;
 * what is made of a policy is kept for as long as its generations stay the same.
 */

import {
  BackplaneError,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
  type Policy,
  type PolicyAnswer,
  type PolicyLevel,
  type PolicyPatch,
} from "@backplane/contract";
import {
  atLeast,
  auditOf,
  type Caller,
  type Changes,
  HOST_ADMIN,
  type KernelDeps,
  type PolicyRow,
  type PolicyRows,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import { compileRules } from "./security-rules.ts";
import { compilePolicy, type EffectivePolicy } from "./standing-policy.ts";

interface Made {
  generations: string;
  standing: EffectivePolicy;
}

const KEPT = 1_024;
const TRIES = 20;

export interface PoliciesDeps extends Pick<KernelDeps, "store" | "schemas" | "clock" | "ids" | "host"> {
  changes: Pick<Changes, "emit">;
}

export class Policies {
  readonly #deps: PoliciesDeps;
  readonly #made = new Map<string, Made>();

  constructor(deps: PoliciesDeps) {
    this.#deps = deps;
  }

  /** What holds in this scope now. */
  of(scope: Scope): MaybePromise<EffectivePolicy> {
    return mapMaybe(this.#deps.store.policies.at(scope), (rows) => this.#standing(scope, rows));
  }

  #standing(scope: Scope, { org, project }: PolicyRows): MaybePromise<EffectivePolicy> {
    const key = `${scope.org_id}\n${scope.project_id}`;
    const generations = `${org?.generation ?? 0}.${project?.generation ?? 0}`;
    const known = this.#made.get(key);
    if (known?.generations === generations) return known.standing;
    return this.#make(org?.policy ?? {}, project?.policy ?? {}).then((standing) => {
      this.#made.delete(key);
      this.#made.set(key, { generations, standing });
      if (this.#made.size > KEPT) this.#made.delete(this.#made.keys().next().value as string);
      return standing;
    });
  }

  async get(caller: Caller, level: PolicyLevel): Promise<PolicyAnswer> {
    requireOperator(caller, "read the policy");
    const { scope, row } = await this.#find(caller, level);
    return await this.#answer(level, scope, row);
  }

  put(caller: Caller, level: PolicyLevel, policy: Policy, expected?: number): Promise<PolicyAnswer> {
    return this.#write(caller, level, () => policy, expected);
  }

  patch(caller: Caller, level: PolicyLevel, patch: PolicyPatch, expected?: number): Promise<PolicyAnswer> {
    return this.#write(caller, level, (before) => patched(before, patch), expected);
  }

  async #write(
    caller: Caller,
    level: PolicyLevel,
    change: (before: Policy) => Policy,
    expected: number | undefined,
  ): Promise<PolicyAnswer> {
    requireAdmin(caller, level);
    const { store, clock } = this.#deps;
    for (let tries = 0; tries < TRIES; tries++) {
      const { scope, row } = await this.#find(caller, level);
      const generation = row?.generation ?? 0;
      if (expected !== undefined && expected !== generation) throw outdated(generation);
      const policy = change(row?.policy ?? {});
      // A rule that cannot be used is refused before it is anybody's policy.
      await this.#make(policy, {});
      const next: PolicyRow = {
        scope,
        policy,
        generation: generation + 1,
        updated_at: new Date(clock.now()).toISOString(),
        updated_by: caller.actor,
      };
      const details = { level, generation: next.generation, ...changes(row?.policy ?? {}, policy) };
      const audit = auditOf(this.#deps, caller, "policy.set", `policy/${level}`, details);
      if (!(await store.policies.put(next, { audit }))) continue;
      this.#deps.changes.emit("policy.changed", { org_id: scope.org_id });
      return await this.#answer(level, scope, next);
    }
    throw outdated(undefined);
  }

  async #find(caller: Caller, level: PolicyLevel): Promise<{ scope: Scope; row: PolicyRow | null }> {
    const { org_id, project_id } = caller.scope;
    if (level === "project" && project_id === null) {
      throw new BackplaneError("request.invalid", "name the project whose policy is meant", {
        fix: "Send the Backplane-Project header, or use --project.",
      });
    }
    const scope = { org_id, project_id: level === "org" ? null : project_id };
    const { org, project } = await this.#deps.store.policies.at(scope);
    return { scope, row: level === "org" ? org : project };
  }

  async #answer(level: PolicyLevel, scope: Scope, row: PolicyRow | null): Promise<PolicyAnswer> {
    const { document } = await this.of(scope);
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
    const shown = {
      max_timeout_ms,
      max_depth,
      min_class,
      network,
      mounts,
      default_domains,
      org: host.orgs?.get(org_id),
      project: host.projects?.get(`${org_id}/${project_id}`),
    };
    return JSON.parse(JSON.stringify(shown)) as JsonObject;
  }

  async #make(org: Policy, project: Policy): Promise<EffectivePolicy> {
    const rules = await compileRules([...(org.rules ?? []), ...(project.rules ?? [])], this.#deps.schemas);
    return compilePolicy(org, project, rules);
  }
}

function requireAdmin(caller: Caller, level: PolicyLevel): void {
  requireOperator(caller, "change the policy");
  if (!atLeast(caller.role, "admin")) {
    throw new BackplaneError("policy.denied", "only an owner or admin may change the policy");
  }
  if (level === "org" && caller.actor !== HOST_ADMIN && caller.scope.project_id !== null) {
    throw new BackplaneError("policy.denied", "only a caller of the whole org may change the org's policy", {
      fix: "Change the project's: send level=project.",
    });
  }
}

/** null takes a field back to its default. */
function patched(before: Policy, patch: PolicyPatch): Policy {
  const merged = { ...before, ...patch };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)) as Policy;
}

/** The fields that are not as they were, for the record. */
function changes(before: Policy, after: Policy): JsonObject {
  const changed: JsonObject = {};
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[field as keyof Policy], after[field as keyof Policy]];
    if (JSON.stringify(a) !== JSON.stringify(b))
      changed[field] = { from: (a ?? null) as Json, to: (b ?? null) as Json };
  }
  return { changed };
}

function outdated(generation: number | undefined): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: generation === undefined ? {} : { generation },
  });
}
