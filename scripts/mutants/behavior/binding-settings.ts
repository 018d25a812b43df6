/**
 * Settings of a binding: what a move to another version keeps, what a request chooses for that version, and the
 * variables in which a server on stdio gets its secrets.
 */
import type { Mutant } from "../mutant.ts";

const PLAN = "packages/registry/src/bindings/plan-change.ts";
const MOVE = "packages/registry/src/bindings/move-binding.ts";
const SECRET_VARIABLES = "packages/registry/src/bindings/secret-variables.ts";
const REQUESTED = "packages/registry/src/bindings/requested-settings.ts";
const UPGRADE_TESTS = ["packages/registry/test/bindings/upgrade.test.ts"];
const BOUND_SECRETS_TESTS = ["packages/registry/test/bindings/bound-secrets.test.ts"];
const REQUESTED_TESTS = ["packages/registry/test/bindings/requested-settings.test.ts"];
const MOVE_TESTS = ["packages/registry/test/bindings/move-binding.test.ts"];

export const BINDING_SETTINGS_MUTANTS: Mutant[] = [
  {
    name: "move: secrets of removed slots are dropped",
    file: MOVE,
    from: "secrets: pickSlots(before.secrets, slots)",
    to: "secrets: before.secrets",
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: a refusal to run on the host is kept",
    file: MOVE,
    from: "...(host_target === false ? { host_target } : {}),",
    to: "",
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: a raised class is kept",
    file: MOVE,
    from: "...(execution_class === undefined || is_lowered ? {} : { class: execution_class }),",
    to: "",
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: new domains are withheld",
    file: MOVE,
    from: "...(domains === null || domains.is_limited ? {} : { allowed_domains: domains.known }),",
    to: "",
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: new scopes are withheld",
    file: MOVE,
    from: "if (!is_limited) narrowed.gateway_api_scopes = scopes.filter(isKnown);",
    to: "",
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: permissions that the operator narrowed are not reported as withheld",
    file: MOVE,
    from: '(narrowed.network === "none" ? limited : withheld).push("network");',
    to: 'withheld.push("network");',
    tests: UPGRADE_TESTS,
  },
  {
    name: "move: settings that are sent back do not count as chosen for the new version",
    file: PLAN,
    from: "      !is_move || is_rollback || all_chosen,",
    to: "      true,",
    tests: REQUESTED_TESTS,
  },
  {
    name: "move: a rollback restores settings that equal the current ones",
    file: PLAN,
    from: "      !is_move || is_rollback || all_chosen,",
    to: "      !is_move || all_chosen,",
    tests: REQUESTED_TESTS,
  },
  {
    name: "move: the settings of an upgrade request count as chosen for the new version",
    file: PLAN,
    from: "{ all_chosen: true, grants_new }",
    to: "{ grants_new }",
    tests: MOVE_TESTS,
  },
  {
    name: "move: trust that is sent back is dropped",
    file: REQUESTED,
    from: "return kept_value === undefined ? [] : [[name, kept_value]];",
    to: "return [[name, kept_value ?? value]];",
    tests: REQUESTED_TESTS,
  },
  {
    name: "move: the fields of permissions are compared one by one",
    file: REQUESTED,
    from: "if (!isObject(value) || !isObject(old_value)) return",
    to: "if (true as boolean) return",
    tests: REQUESTED_TESTS,
  },
  {
    name: "move: secrets that are sent back do not go to another server",
    file: REQUESTED,
    from: "resolve(secrets, before.secrets, carried.secrets)",
    to: "secrets ?? carried.secrets",
    tests: MOVE_TESTS,
  },
  {
    name: "move: headers that are sent back do not go to another server",
    file: REQUESTED,
    from: "resolve(config, before.config, carried.config)",
    to: "config ?? carried.config",
    tests: MOVE_TESTS,
  },
  {
    name: "move: settings that a request changes by name count as chosen for the new version",
    file: REQUESTED,
    from: "set: applyChanges(resolve(policy ?? {}, before.policy, {}), changes?.policy)",
    to: "set: resolve(policy ?? {}, before.policy, {})",
    tests: REQUESTED_TESTS,
  },
  {
    name: "binding: null in a change removes a setting",
    file: REQUESTED,
    from: "merged.filter(([, value]) => value !== null)",
    to: "merged.filter(([, value]) => value !== undefined)",
    tests: REQUESTED_TESTS,
  },
  {
    name: "binding: a user cannot remove the limit of a share with `changes`",
    file: PLAN,
    from: "body.policy !== undefined || body.changes?.policy !== undefined",
    to: "body.policy !== undefined",
    tests: REQUESTED_TESTS,
  },
  {
    name: "secret variables: only a server on stdio gets variables",
    file: SECRET_VARIABLES,
    from: 'protocol !== "mcp.stdio"',
    to: 'protocol === "vai.rpc.v1"',
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: only a slot that the change binds gets a variable",
    file: SECRET_VARIABLES,
    from: "before.secrets[slot] === undefined || named_slots.includes(slot)",
    to: "true",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a slot that is bound again gets a variable",
    file: SECRET_VARIABLES,
    from: " || named_slots.includes(slot)",
    to: "",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a slot that the configuration refers to gets no variable",
    file: SECRET_VARIABLES,
    from: "...placeholderSlots([draft.config.args ?? null, draft.config.env ?? null]),",
    to: "",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: the operator's variable is kept",
    file: SECRET_VARIABLES,
    from: "...kept.map(([slot]) => slot),",
    to: "",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a name that programs interpret is refused",
    file: SECRET_VARIABLES,
    from: "if (error === undefined) return variable;",
    to: "if (variable !== slot) return variable;",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a slot loses its variable with its secret",
    file: SECRET_VARIABLES,
    from: "!slots.includes(slot) && before.policy",
    to: "slots.includes(slot) && before.policy",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a rollback adds no variables",
    file: PLAN,
    from: "if (!is_rollback) draft.policy = assignSecretVariables",
    to: "draft.policy = assignSecretVariables",
    tests: BOUND_SECRETS_TESTS,
  },
  {
    name: "secret variables: a share gets no variables for copied secrets",
    file: PLAN,
    from: "{ secrets: {}, policy: {}, ...copied }",
    to: "{ secrets: {}, policy: {} }",
    tests: BOUND_SECRETS_TESTS,
  },
];
