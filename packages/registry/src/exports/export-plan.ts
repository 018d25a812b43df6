/**
 * The plan of a bound export: its compiled checks, class, grant and pool key. A plan is computed once for each
 * combination of binding generation, definitions and project, and not per call (benchmarks http.invoke, mcp.http-call).
 */

import {
  BackplaneError,
  type EffectClass,
  type ExecutionClass,
  type Grant,
  type PluginExport,
  validatesInput,
} from "@backplane/contract";
import type { BoundPackage, KernelDeps, SchemaCheck, Scope } from "@backplane/ports";
import { digestGrant, levelBeforeCall, toGrant, withSecretEnv } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { intersect, type Level } from "../grant/intersect.ts";
import { type CompiledRule, compilePluginRules, NO_RULES } from "../policy/security-rules.ts";
import { acceptEither, withOptionalDefaults } from "./optional-defaults.ts";
import { sanitizeExport } from "./sanitize-export.ts";

export interface ExportPlan {
  readonly bound: BoundPackage;
  /** The export with sanitized text. */
  readonly export: PluginExport;
  /** The hidden text that was removed, one line each. */
  readonly taken_out: readonly string[];
  readonly effect_class: EffectClass;
  readonly class: ExecutionClass;
  readonly level: Level;
  readonly grant: Grant;
  readonly pool_key: string;
  /** Calls with the same key count together towards max_concurrency. */
  readonly concurrency_key: string;
  readonly checkInput: SchemaCheck | null;
  readonly checkOutput: SchemaCheck | null;
  /** Security rules of the tool itself. */
  readonly rules: readonly CompiledRule[];
}

const MAX_PLANS = 4_096;

export class ExportPlans {
  readonly #deps: Pick<KernelDeps, "schemas" | "host">;
  readonly #plans = new Map<string, ExportPlan>();

  constructor(deps: Pick<KernelDeps, "schemas" | "host">) {
    this.#deps = deps;
  }

  /** Returns the plan itself and not a promise when it is cached, which is the usual case (benchmark http.invoke). */
  get(bound: BoundPackage, scope: Scope): ExportPlan | Promise<ExportPlan> {
    const { binding_id, export_id } = bound.binding;
    const key = `${binding_id}\n${export_id}\n${scope.project_id}`;
    const cached = this.#plans.get(key);
    if (
      cached !== undefined &&
      cached.bound.binding.generation === bound.binding.generation &&
      cached.bound.package.digest === bound.package.digest &&
      cached.bound.definitions_digest === bound.definitions_digest
    ) {
      return cached;
    }
    return this.#create(key, bound, scope);
  }

  async #create(key: string, bound: BoundPackage, scope: Scope): Promise<ExportPlan> {
    const { host, schemas } = this.#deps;
    const item = findBoundExport(bound);
    const checkInput = item.kind === "tool" ? await this.#compileInput(bound, item.tool.input_schema) : null;
    const checkOutput = item.kind === "tool" ? await this.#compile(bound, item.tool.output_schema) : null;
    const isolation = effectiveClass(bound.binding, item);
    const level = levelBeforeCall({ ...bound, export: item }, isolation, scope, host);
    const grant = withSecretEnv(toGrant(level), bound.binding.policy);
    const sanitized = sanitizeExport(bound, item);
    const plan: ExportPlan = {
      bound: sanitized.bound,
      export: sanitized.export,
      taken_out: sanitized.taken_out,
      effect_class: effectClassOf(item),
      class: grant.class,
      level,
      grant,
      pool_key: poolKey(bound, scope, grant),
      concurrency_key: concurrencyKeyOf(bound),
      checkInput,
      checkOutput,
      rules: item.kind === "tool" ? await compilePluginRules(item.tool.rules, schemas) : NO_RULES,
    };
    this.#plans.delete(key);
    this.#plans.set(key, plan);
    if (this.#plans.size > MAX_PLANS) this.#plans.delete(this.#plans.keys().next().value as string);
    return plan;
  }

  async #compile(bound: BoundPackage, path: string | undefined): Promise<SchemaCheck | null> {
    if (path === undefined) return null;
    return await this.#deps.schemas.compile(schemaKey(bound, path), bound.package.schemas[path]);
  }

  /** An MCP server validates the input too and fills in its defaults; other plugins rely on this check alone. */
  async #compileInput(bound: BoundPackage, path: string | undefined): Promise<SchemaCheck | null> {
    const strict = await this.#compile(bound, path);
    if (strict === null || path === undefined) return strict;
    if (!validatesInput(bound.package.manifest.runtime.protocol)) return strict;
    const optional = withOptionalDefaults(bound.package.schemas[path]);
    if (optional === null) return strict;
    const relaxed = await this.#deps.schemas.compile(`${schemaKey(bound, path)}#defaults`, optional);
    return acceptEither(strict, relaxed);
  }
}

/**
 * The path of a described schema is the hash of its content, so an unchanged schema is not compiled again. In other
 * packages a path is a file name and identifies a schema only within its package.
 */
function schemaKey({ definitions_digest, package: pack }: BoundPackage, path: string): string {
  return definitions_digest !== undefined && path.startsWith("described/") ? path : `${pack.digest}#${path}`;
}

/** Returns the grant of the plan, narrowed to the ceiling of this call. */
export function narrowGrant(
  plan: ExportPlan,
  ceiling: Level | undefined,
  scope: Scope,
): { grant: Grant; pool_key: string } {
  if (ceiling === undefined) return plan;
  const grant = withSecretEnv(toGrant(intersect(plan.level, ceiling)), plan.bound.binding.policy);
  return { grant, pool_key: poolKey(plan.bound, scope, grant) };
}

/** Calls share a process only when package digest, binding generation, project and grant are the same. */
export function poolKey(bound: BoundPackage, scope: Scope, grant: Grant): string {
  const { binding_id, generation } = bound.binding;
  return `${bound.package.digest}/${binding_id}@${generation}/${scope.project_id ?? "-"}/${digestGrant(grant)}`;
}

/** Each tool of a whole package has its own limit. */
function concurrencyKeyOf({ binding, whole }: BoundPackage): string {
  return whole === true ? `${binding.binding_id}/${binding.export_id}` : binding.binding_id;
}

function findBoundExport(bound: BoundPackage): PluginExport {
  const item = bound.package.manifest.exports.find((declared) => declared.id === bound.binding.export_id);
  if (item === undefined) throw new BackplaneError("export.not_found");
  return item;
}

/**
 * Only tools declare an effect class. A hook is delivered under a stable delivery_id and has to be idempotent. A
 * compactor derives a new chain and has no other effect. The effects of a harness are unknown.
 */
function effectClassOf(item: PluginExport): EffectClass {
  switch (item.kind) {
    case "tool":
      return item.tool.effect_class;
    case "hook":
      return "idempotent_write";
    case "compactor":
      return "read_only";
    case "harness":
      return "unknown";
  }
}
