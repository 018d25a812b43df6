/**
 * Security rules of tools and of the policy (instr.security-rules). A rule denies a call or raises its risk; it cannot
 * allow a call. The conditions of a rule are compiled to a JSON Schema of the inputs that do not match it. An input that
 * the schema check cannot decide therefore counts as a match.
 */

import {
  BackplaneError,
  type Json,
  type JsonObject,
  type Risk,
  type SecurityRule,
} from "@backplane/contract";
import { SecurityRuleSchema } from "@backplane/contract/schema";
import type { SchemaCheck, Schemas } from "@backplane/ports";
import { compileToolPatterns, type ToolMatcher } from "./tool-pattern.ts";

export interface CompiledRule {
  /** For people, such as `the plugin's rule no-etc`. */
  name: string;
  tools: ToolMatcher | null;
  /** Null when every call matches. */
  check: SchemaCheck | null;
  action: "deny" | "raise";
  risk: Risk;
  reason: string;
}

/** A rule that matches the call. */
export type RuleHit = Pick<CompiledRule, "name" | "action" | "risk" | "reason">;

type Compiler = Pick<Schemas, "compile">;

export const NO_RULES: readonly CompiledRule[] = [];
const NO_HITS: readonly RuleHit[] = [];

/** Throws request.invalid for a rule that cannot be compiled. */
export async function compileRules(
  rules: readonly SecurityRule[],
  schemas: Compiler,
): Promise<readonly CompiledRule[]> {
  const compiled: CompiledRule[] = [];
  for (const [n, rule] of rules.entries()) {
    try {
      compiled.push(await compileRule(rule, `the policy's rule ${rule.id ?? n + 1}`, schemas));
    } catch (error) {
      const message = `Rule ${rule.id ?? n + 1} is invalid: ${error instanceof Error ? error.message : String(error)}`;
      throw new BackplaneError("request.invalid", message, {
        details: { issues: [{ path: `body.rules.${n}`, message }] },
      });
    }
  }
  return compiled;
}

/**
 * Compiles the rules of a plugin. A rule that cannot be compiled denies every call, because its intent is unknown.
 */
export async function compilePluginRules(
  rules: readonly Json[] | undefined,
  schemas: Compiler,
): Promise<readonly CompiledRule[]> {
  if (rules === undefined || rules.length === 0) return NO_RULES;
  const compiled: CompiledRule[] = [];
  for (const [n, rule] of rules.entries()) {
    const parsed = SecurityRuleSchema.safeParse(rule);
    const name = `the plugin's rule ${(parsed.success ? parsed.data.id : undefined) ?? n + 1}`;
    try {
      if (!parsed.success) throw new Error(parsed.error.issues[0]?.message ?? "not a rule");
      compiled.push(await compileRule(parsed.data, name, schemas));
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      const reason = `the rule is invalid (${problem}), so every call is denied`;
      compiled.push({ name, tools: null, check: null, action: "deny", risk: "critical", reason });
    }
  }
  return compiled;
}

/**
 * Returns the hits without a promise when every check is synchronous, which is the usual case (benchmark http.invoke).
 */
export function findRuleHits(
  rules: readonly CompiledRule[],
  tool: string,
  input: Json,
): readonly RuleHit[] | Promise<readonly RuleHit[]> {
  if (rules.length === 0) return NO_HITS;
  const hits: RuleHit[] = [];
  let pending: Promise<unknown>[] | null = null;
  for (const rule of rules) {
    if (rule.tools?.(tool) === false) continue;
    const issues = rule.check === null ? null : rule.check(input);
    if (issues instanceof Promise) {
      pending ??= [];
      pending.push(issues.then((resolved) => resolved.length > 0 && hits.push(rule)));
    } else if (issues === null || issues.length > 0) hits.push(rule);
  }
  return pending === null ? hits : Promise.all(pending).then(() => hits);
}

async function compileRule(rule: SecurityRule, name: string, schemas: Compiler): Promise<CompiledRule> {
  const { when, action, tools } = rule;
  const schema: JsonObject = { not: { allOf: when.map(compileCondition) } };
  return {
    name,
    tools: tools === undefined ? null : compileToolPatterns(tools),
    // Rules have no file name, so the schema itself is the cache key.
    check: when.length === 0 ? null : await schemas.compile(`rule ${JSON.stringify(schema)}`, schema),
    action,
    risk: rule.risk ?? "high",
    reason:
      rule.reason ??
      (action === "deny" ? "the rule forbids this call" : "the rule raises the risk of this call"),
  };
}

function compileCondition({
  pointer,
  matches,
  equals,
  one_of,
  exists,
}: SecurityRule["when"][number]): JsonObject {
  if (exists === false) return { not: schemaAt(pointer, {}) };
  if (exists === true) return schemaAt(pointer, {});
  if (matches !== undefined) return schemaAt(pointer, { type: "string", pattern: matches });
  return schemaAt(pointer, { enum: one_of ?? [equals ?? null] });
}

/** Returns the schema of a value that matches `test` at the pointer; `*` matches any item of an array. */
function schemaAt(pointer: string, test: JsonObject): JsonObject {
  const parts = pointer.split("/").slice(1);
  return parts.reduceRight<JsonObject>((inner, part): JsonObject => {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (name === "*") return { type: "array", contains: inner };
    return { type: "object", required: [name], properties: { [name]: inner } };
  }, test);
}
