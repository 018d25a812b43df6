/**
 * What every call of one binding generation has in common: its export, compiled checks, class, grant and pool
 * key. Computed once, because a call must not pay for it; a changed generation makes a new plan.
 */

import {
  BackplaneError,
  type EffectClass,
  type ExecutionClass,
  type Grant,
  type PluginExport,
} from "@backplane/contract";
import type { BoundPackage, KernelDeps, SchemaCheck, Scope } from "@backplane/ports";
import { digestGrant, standingLevel, toGrant, withSecretEnv } from "../grant/effective.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { intersect, type Level } from "../grant/intersect.ts";
import { type CompiledRule, compilePluginRules, NO_RULES } from "../policy/security-rules.ts";
import { sanitizeExport } from "./sanitize-text.ts";

export interface ExportPlan {
  readonly bound: BoundPackage;
  /** With its words as they are shown. */
  readonly export: PluginExport;
  /** What was hidden in those words and is not shown, one line each. */
  readonly taken_out: readonly string[];
  readonly effect_class: EffectClass;
  readonly class: ExecutionClass;
  readonly level: Level;
  readonly grant: Grant;
  readonly pool_key: string;
  /** Whose calls max_concurrency counts together. */
  readonly gate: string;
  readonly checkInput: SchemaCheck | null;
  readonly checkOutput: SchemaCheck | null;
  /** The tool's own security rules. */
  readonly rules: readonly CompiledRule[];
}

const KEPT = 4_096;

export class ExportPlans {
  readonly #deps: Pick<KernelDeps, "schemas" | "host">;
  readonly #plans = new Map<string, ExportPlan>();

  constructor(deps: Pick<KernelDeps, "schemas" | "host">) {
    this.#deps = deps;
  }

  /** Answers at once when the plan is known, which is the usual call. */
  get(bound: BoundPackage, scope: Scope): ExportPlan | Promise<ExportPlan> {
    const { binding_id, export_id } = bound.binding;
    const key = `${binding_id}\n${export_id}\n${scope.project_id}`;
    const known = this.#plans.get(key);
    if (
      known !== undefined &&
      known.bound.binding.generation === bound.binding.generation &&
      known.bound.package.digest === bound.package.digest &&
      known.bound.described === bound.described
    ) {
      return known;
    }
    return this.#make(key, bound, scope);
  }

  async #make(key: string, bound: BoundPackage, scope: Scope): Promise<ExportPlan> {
    const { host, schemas } = this.#deps;
    const item = exportOf(bound);
    const compile = async (path: string | undefined) =>
      path === undefined ? null : await schemas.compile(schemaKey(bound, path), bound.package.schemas[path]);
    const checkInput = item.kind === "tool" ? await compile(item.tool.input_schema) : null;
    const checkOutput = item.kind === "tool" ? await compile(item.tool.output_schema) : null;
    const isolation = effectiveClass(bound.binding, item);
    const level = standingLevel({ ...bound, export: item }, isolation, scope, host);
    const grant = withSecretEnv(toGrant(level), bound.binding.policy);
    const shown = sanitizeExport(bound, item);
    const plan: ExportPlan = {
      bound: shown.bound,
      export: shown.export,
      taken_out: shown.taken_out,
      effect_class: effectClassOf(item),
      class: grant.class,
      level,
      grant,
      pool_key: poolKey(bound, scope, grant),
      gate: gateOf(bound),
      checkInput,
      checkOutput,
      rules: item.kind === "tool" ? await compilePluginRules(item.tool.rules, schemas) : NO_RULES,
    };
    this.#plans.delete(key);
    this.#plans.set(key, plan);
    if (this.#plans.size > KEPT) this.#plans.delete(this.#plans.keys().next().value as string);
    return plan;
  }
}

/**
 * A described schema's path is its content's hash, so one that did not change is not compiled again. In any other
 * package a path is a file that its author named, and stands for nobody else's.
 */
function schemaKey({ described, package: pack }: BoundPackage, path: string): string {
  return described !== undefined && path.startsWith("described/") ? path : `${pack.digest}#${path}`;
}

/** The plan's grant, met with what this one call may do at most. */
export function narrowGrant(
  plan: ExportPlan,
  ceiling: Level | undefined,
  scope: Scope,
): { grant: Grant; pool_key: string } {
  if (ceiling === undefined) return plan;
  const grant = withSecretEnv(toGrant(intersect(plan.level, ceiling)), plan.bound.binding.policy);
  return { grant, pool_key: poolKey(plan.bound, scope, grant) };
}

/** Processes are shared only inside one key: package digest, binding generation, project, grant. */
export function poolKey(bound: BoundPackage, scope: Scope, grant: Grant): string {
  const { binding_id, generation } = bound.binding;
  return `${bound.package.digest}/${binding_id}@${generation}/${scope.project_id ?? "-"}/${digestGrant(grant)}`;
}

/** Of a whole package each tool has its own line. */
function gateOf({ binding, whole }: BoundPackage): string {
  return whole === true ? `${binding.binding_id}/${binding.export_id}` : binding.binding_id;
}

function exportOf(bound: BoundPackage): PluginExport {
  const item = bound.package.manifest.exports.find((one) => one.id === bound.binding.export_id);
  if (item === undefined) throw new BackplaneError("export.not_found");
  return item;
}

/**
 * Only tools declare one. A hook is delivered under a stable delivery_id and has to be idempotent; a compactor
 * derives a new chain and touches nothing; what a harness does to the world nobody knows.
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
