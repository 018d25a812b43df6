/** Allow rules and bindings that need no approval: what they cover, who may create them, when they do not apply. */
import type { Mutant } from "../mutant.ts";

const PERMISSION = "packages/door/src/admission/lasting-permission.ts";
const PATTERN = "packages/door/src/admission/argument-pattern.ts";
const ALLOWED = "packages/door/src/approval/admit-with-allow-rules.ts";
const RULES = "packages/door/src/approval/allow-rules.ts";
const RECORD = "packages/door/src/invoke/record.ts";
const WAIVED = "packages/registry/src/bindings/waived-approvals.ts";
const NAMES = "packages/registry/src/bindings/name-authority.ts";
const PLAN = "packages/registry/src/bindings/plan-change.ts";
const WIDER = "packages/registry/src/grant/wider-parts.ts";
const STORE = "packages/store/src/ops/allow-rules.ts";

const ALLOW_RULES_TESTS = ["packages/door/test/approval/allow-rules.test.ts"];
const LASTING_PERMISSION_TESTS = ["packages/door/test/admission/lasting-permission.test.ts"];
const LASTING_ANSWERS_TESTS = ["packages/door/test/approval/lasting-answers.test.ts"];
const ARGUMENT_PATTERN_TESTS = ["packages/door/test/admission/argument-pattern.test.ts"];
const WAIVED_APPROVALS_TESTS = ["packages/registry/test/bindings/waived-approvals.test.ts"];
const NAME_AUTHORITY_TESTS = ["packages/registry/test/bindings/name-authority.test.ts"];
const INSTALLATION_RIGHTS_TESTS = ["packages/registry/test/installations/installation-rights.test.ts"];
const WIDER_PARTS_TESTS = ["packages/registry/test/grant/wider-parts.test.ts"];
const CONTRACT_SQLITE_TESTS = ["packages/store/test/stores/contract-sqlite.test.ts"];

export const ALLOW_RULE_MUTANTS: Mutant[] = [
  {
    name: "allow rules: a call above the ceiling needs approval",
    file: PERMISSION,
    from: "  if (!tolerates(policy.document.lasting_approvals, risk)) return NO_PERMISSION;\n",
    to: "",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: no answer covers more than the ceiling",
    file: PERMISSION,
    from: "  if (!tolerates(lasting_approvals, risk)) {",
    to: "  if (!tolerates(lasting_approvals, risk) && lasting_approvals === null) {",
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: a call above the rule's own risk needs approval",
    file: PERMISSION,
    from: " || compareRisk(risk, rule.max_risk) > 0) continue;",
    to: ") continue;",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: a rule applies to one package",
    file: PERMISSION,
    from: "rule.package_id !== bound.package.package_id || ",
    to: "",
    tests: LASTING_PERMISSION_TESTS,
  },
  {
    name: "allow rules: a rule applies to one tool",
    file: PERMISSION,
    from: 'rule.covers === "tool" ? rule.tool === item.id : !requiresApproval(plan)',
    to: 'rule.covers === "tool" || !requiresApproval(plan)',
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: a rule for a server does not waive an author's approval",
    file: PERMISSION,
    from: 'rule.covers === "tool" ? rule.tool === item.id : !requiresApproval(plan)',
    to: 'rule.covers === "tool" ? rule.tool === item.id : true',
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: a wider grant needs approval again",
    file: PERMISSION,
    from: "    if (wider.length === 0) return { allowed_by: rule.id, unmet: null };",
    to: "    return { allowed_by: rule.id, unmet: null };",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: a binding that always requires approval overrides a rule",
    file: PERMISSION,
    from: 'approval === "always" || plan.export.kind',
    to: "plan.export.kind",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: no rule is created for a binding that always requires approval",
    file: PERMISSION,
    from: '  if (bound.binding.policy.approval === "always")\n',
    to: '  if (bound.binding.policy.approval === undefined && item.id === "")\n',
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: rules do not cover the gateway's own tools",
    file: PERMISSION,
    from: ' || originOf(bound) === "core") return false;',
    to: ") return false;",
    tests: LASTING_PERMISSION_TESTS,
  },
  {
    name: "allow rules: a rule for one caller covers no other caller",
    file: PERMISSION,
    from: "  if (rule.identity !== null && rule.identity !== root.actor) return false;\n",
    to: "",
    tests: LASTING_PERMISSION_TESTS,
  },
  {
    name: "allow rules: a rule ends with the key of its creator",
    file: ALLOWED,
    from: "if ((await authority.findRevocation(creatorOf(rule))) === null) valid_rules.push(rule);",
    to: "valid_rules.push(rule);",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: a headless call uses allow rules",
    file: ALLOWED,
    from: ": verdict.needs_approval;",
    to: ": false;",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: only an admin creates a rule for others",
    file: RULES,
    from: '    if (!hasRole(caller.role, "admin"))\n',
    to: '    if (!hasRole(caller.role, "guest"))\n',
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: only a caller of the whole org creates a rule for all projects",
    file: RULES,
    from: '  requireWholeOrg(caller, "allow calls in the whole organization");\n',
    to: "",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: only a caller of the whole org removes the org's rules",
    file: RULES,
    from: '      if (rule.project_id === null) requireWholeOrg(caller, "remove this rule");\n',
    to: "",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: a user does not remove a rule for others",
    file: RULES,
    from: "      requireRemoval(caller, rule);\n",
    to: "",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: the list shows which rules the ceiling suspends",
    file: RULES,
    from: "  if (tolerates(ceiling, max_risk)) return null;\n",
    to: "  if (ceiling !== max_risk) return null;\n",
    tests: ALLOW_RULES_TESTS,
  },
  {
    name: "allow rules: an answer for exact arguments covers no other arguments",
    file: RULES,
    from: 'other_arguments: covers !== "arguments",',
    to: "other_arguments: true,",
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: a pattern does not reach a parent folder",
    file: PATTERN,
    from: '  if (PARENT_FOLDER.test(value.replaceAll(/%2e/gi, "."))) return false;\n',
    to: "",
    tests: ARGUMENT_PATTERN_TESTS,
  },
  {
    name: "allow rules: an encoded parent folder is recognized",
    file: PATTERN,
    from: 'value.replaceAll(/%2e/gi, ".")',
    to: "value",
    tests: ARGUMENT_PATTERN_TESTS,
  },
  {
    name: "allow rules: a wildcard at the end of a pattern matches no shell syntax",
    file: PATTERN,
    from: "  return !NOT_MATCHED_BY_WILDCARD.test(value.slice(at, end));",
    to: "  return true;",
    tests: ARGUMENT_PATTERN_TESTS,
  },
  {
    name: "allow rules: a wildcard in the middle of a pattern matches no shell syntax",
    file: PATTERN,
    from: " ||\n      NOT_MATCHED_BY_WILDCARD.test(value.slice(at, position))",
    to: "",
    tests: ARGUMENT_PATTERN_TESTS,
  },
  {
    name: "allow rules: an answer for a tool covers no higher risk",
    file: RECORD,
    from: "session_grant === null || compareRisk(ask.risk, session_grant.grant.max_risk) > 0",
    to: "session_grant === null",
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: the ceiling limits an answer for a session",
    file: RECORD,
    from: "  if (!tolerates(call.policy.document.lasting_approvals, ask.risk)) return null;\n",
    to: "",
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: a binding that always requires approval ignores answers for a tool",
    file: RECORD,
    from: "(asks_every_time ? null : session_grants.find(session, toolDigestOf(parts)))",
    to: "session_grants.find(session, toolDigestOf(parts))",
    tests: LASTING_ANSWERS_TESTS,
  },
  {
    name: "allow rules: a grant that allows running on the host is wider",
    file: WIDER,
    from: "    host: grant.host === true,\n    ...(tools",
    to: "    ...(tools",
    tests: WIDER_PARTS_TESTS,
  },
  {
    name: "allow rules: a rule of another project is not read",
    file: STORE,
    from: 'checkedCondition("allow_rules", "project_id in (\'\', $2)")',
    to: 'checkedCondition("allow_rules", "$2 = $2")',
    tests: CONTRACT_SQLITE_TESTS,
  },
  {
    name: "approval = never: only an admin sets it",
    file: WAIVED,
    from: '      if (!hasRole(caller.role, "admin"))\n',
    to: '      if (!hasRole(caller.role, "guest"))\n',
    tests: WAIVED_APPROVALS_TESTS,
  },
  {
    name: "approval = never: refused above the ceiling",
    file: WAIVED,
    from: "      if (tolerates(lasting_approvals, risk)) continue;\n",
    to: "      if (tolerates(lasting_approvals, risk) || item.id !== null) continue;\n",
    tests: WAIVED_APPROVALS_TESTS,
  },
  {
    name: "approval = never: only an admin widens its grant",
    file: WAIVED,
    from: ' === "never" && findWiderParts(to, draft, from).length === 0;',
    to: ' === "never";',
    tests: WAIVED_APPROVALS_TESTS,
  },
  {
    name: "approval = never: an upgrade that can do more drops it",
    file: PLAN,
    from: "(await waivers.findLoss(checked, draft, moved_from)) !== null",
    to: "(await waivers.findLoss(checked, draft, moved_from)) === undefined",
    tests: WAIVED_APPROVALS_TESTS,
  },
  {
    name: "tool names: only an admin sets or changes the name of a server",
    file: NAMES,
    from: "      if (before !== null || isNamed(draft)) throw renameDeniedError(before);\n",
    to: "",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin removes the name of a server from its tools",
    file: NAMES,
    from: "boundServerName(before) === boundServerName(draft) && isNamed(before) === isNamed(draft);",
    to: "boundServerName(before) === boundServerName(draft);",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: the names are still free when a binding is stored",
    file: "packages/store/src/ops/bindings.ts",
    from: "if (expected_revision === null || expected_revision === Number(row!.revision) - 1) return;",
    to: "if (expected_revision === null || Number(row!.revision) > 0) return;",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: names are checked again after another change",
    file: "packages/registry/src/bindings/claims.ts",
    from: "current = await Promise.all(current.map((claim) => claim.renew()));",
    to: "current = [];",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin removes a server that an admin has named",
    file: NAMES,
    from: 'if (!isServer(pack) || !isNamed(binding) || hasRole(caller.role, "admin")) return;',
    to: 'if (!isServer(pack) || !isNamed(binding) || hasRole(caller.role, "guest")) return;',
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin gives a package of the org another name in a project",
    file: NAMES,
    from: "      if (bound_version !== undefined)\n",
    to: "      if (known === null)\n",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: two servers of a scope have different names",
    file: NAMES,
    from: "    if (holder !== undefined && isInScope(holder, draft.scope))\n",
    to: "    if (holder === null)\n",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin replaces a server of the org in a project",
    file: NAMES,
    from: "(!is_admin || isInScope(other, draft.scope))",
    to: "isInScope(other, draft.scope)",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin binds a server that the policy trusts by name",
    file: NAMES,
    from: "find((each) => reachesServer(each, name));",
    to: "find((each) => each === name);",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: the tools of a server reach patterns of a longer server name",
    file: NAMES,
    from: "start.startsWith(prefix) || (start",
    to: "start === prefix || (start",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin binds a tool that the policy trusts by name",
    file: NAMES,
    from: "find((each) => compileToolPatterns([each])(id));",
    to: "find((each) => each === id);",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: only an admin binds a tool name that another package has",
    file: NAMES,
    from: "package_id !== draft.package_id && (await hasTool(bound, id))",
    to: "package_id === null && (await hasTool(bound, id))",
    tests: NAME_AUTHORITY_TESTS,
  },
  {
    name: "tool names: servers that are installed together have different names",
    file: "packages/registry/src/installations/plan-bindings.ts",
    from: "  requireDistinctNames(planned.flatMap(({ change }) => change ?? []));\n",
    to: "",
    tests: INSTALLATION_RIGHTS_TESTS,
  },
];
