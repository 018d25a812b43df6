/**
 * Only a credential of the whole org changes the org, a credential is sent only to its own destination, and model calls
 * reach no private address.
 */
import type { Mutant } from "./mutant.ts";

const WRITE_AUTHORITY_TESTS = ["packages/registry/test/config/write-authority.test.ts"];
const DESTINATION_TESTS = ["packages/registry/test/config/destination.test.ts"];
const NETWORK_GUARD_TESTS = ["packages/gateway/test/plugins/network-guard.test.ts"];
const LLM_FAILURE_TESTS = ["packages/sdk/test/kernel/llm-failure.test.ts"];
const OWNERS_TESTS = ["packages/registry/test/secrets/secret-owners.test.ts"];
const AUTHORITY = "packages/registry/src/config/write-authority.ts";
const CONFIG_OP = "packages/store/src/ops/config.ts";
const SECRETS_OP = "packages/store/src/ops/secrets.ts";
const NETWORK = "packages/gateway/src/plugins/network-guard.ts";
const INLINE = "packages/gateway/src/plugins/inline-plugin.ts";
const VENDOR = "packages/sdk/src/kernel/vendor-fetch.ts";

export const DESTINATION_DEFENSES: Mutant[] = [
  {
    name: "org: only a credential of the whole org changes the org",
    file: "packages/ports/src/caller/caller.ts",
    from: "  if (isWholeOrg(caller)) return;\n",
    to: "  if (isWholeOrg(caller) || !isWholeOrg(caller)) return;\n",
    tests: WRITE_AUTHORITY_TESTS,
  },
  {
    name: "org: only an admin changes the rights of plugins by setting keys",
    file: AUTHORITY,
    from: "if (setting !== null) requireSetting(caller, setting.field, key);",
    to: "",
    tests: WRITE_AUTHORITY_TESTS,
  },
  {
    name: "org: only an admin changes the rights of plugins by removing keys",
    file: AUTHORITY,
    from: "    requireSetting(caller, field, pattern);\n",
    to: "    void field;\n",
    tests: WRITE_AUTHORITY_TESTS,
  },
  {
    name: "org: only a credential of the whole org accepts tools of the org's bindings",
    file: "packages/registry/src/definitions/definitions.ts",
    from: "if (bound.binding.scope.project_id === null) requireWholeOrg(caller, action);",
    to: "",
    tests: ["packages/registry/test/definitions/definitions.test.ts"],
  },
  {
    name: "org: a project cannot remove packages of another project",
    file: "packages/registry/src/packages/packages.ts",
    from: "if (row.installed_by !== caller.actor)",
    to: "if (row.installed_by === caller.actor)",
    tests: ["packages/registry/test/packages/packages.test.ts"],
  },
  {
    name: "secret: only its owner replaces a secret",
    file: SECRETS_OP,
    from: "where excluded.project_id = '' or secrets.project_id = excluded.project_id",
    to: "where 1 = 1",
    tests: OWNERS_TESTS,
  },
  {
    name: "secret: only its owner removes a secret",
    file: SECRETS_OP,
    from: 'if (p.project_id !== "" && stored.project_id !== p.project_id) refuseOtherOwner(p.name);',
    to: "",
    tests: OWNERS_TESTS,
  },
  {
    name: "secret: a secret is bound only in its own scope",
    file: "packages/registry/src/bindings/check-binding.ts",
    from: "secret === null || !isUsableIn(secret, project_id)",
    to: "secret === null",
    tests: ["packages/registry/test/bindings/bound-secrets.test.ts"],
  },
  {
    name: "credential: a credential is dropped when its destination changes",
    file: CONFIG_OP,
    from: "if (!is_new_plugin && stored?.value !== value) changed.push(key);",
    to: "void is_new_plugin;",
    tests: DESTINATION_TESTS,
  },
  {
    name: "credential: a credential is dropped when its destination is removed",
    file: CONFIG_OP,
    from: "const changed = removed.filter(isDestination).map(({ key }) => key as string);",
    to: "const changed: string[] = [];",
    tests: DESTINATION_TESTS,
  },
  {
    name: "credential: a credential is not sent to another server",
    file: "packages/registry/src/bindings/move-binding.ts",
    from: "return old.url !== next.url;",
    to: "return false;",
    tests: ["packages/registry/test/bindings/move-binding.test.ts"],
  },
  {
    name: "provider: only the host's admin allows a private address",
    file: AUTHORITY,
    from: "if (isAllowPrivateKey(key)) requireAllowPrivate(caller, key);",
    to: "",
    tests: DESTINATION_TESTS,
  },
  {
    name: "provider: a permission covers one private address",
    file: "packages/agent/src/providers/private-address.ts",
    from: "return allowed === undefined || allowed === address ? fields",
    to: "return allowed === undefined || allowed !== null ? fields",
    tests: DESTINATION_TESTS,
  },
  {
    name: "egress: inline connections go to checked addresses",
    file: NETWORK,
    from: "return connect.apply(this, pinArguments(args, plugin, target!));",
    to: "return connect.apply(this, args);",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: literal addresses of inline plugins are checked",
    file: NETWORK,
    from: "isIP(host) === 0 ? null : plugin.refuseLiteral(host, port)",
    to: "null as BackplaneError | null",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: inline requests on open connections are checked",
    file: NETWORK,
    from: "    await checkUrl(plugin, url);\n",
    to: "",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: requests of a plugin's own agent are checked",
    file: NETWORK,
    from: "    if (refusal !== null) return refuse(refusal);\n",
    to: "",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: names in requests of a plugin's own agent are checked",
    file: NETWORK,
    from: "    if (isIP(target.host) !== 0) return addRequest.apply(this, args);\n",
    to: '    if (target.host !== "") return addRequest.apply(this, args);\n',
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: inline agents share no connections",
    file: NETWORK,
    from: "  guardAgents(running);\n  return guard;",
    to: "  return guard;",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: redirects of inline requests are not followed",
    file: NETWORK,
    from: 'redirect: redirect === "follow" ? "manual" : redirect',
    to: "redirect",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: a private address is allowed for one org only",
    file: INLINE,
    from: "      const scoped = identity.createScope();\n",
    to: "      const scoped = ((identity as { one?: ReturnType<typeof identity.createScope> }).one ??= identity.createScope());\n",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: only allowed private addresses are reached",
    file: INLINE,
    from: "private_allowed: config.allow_private === address",
    to: "private_allowed: true",
    tests: NETWORK_GUARD_TESTS,
  },
  {
    name: "egress: redirects of a vendor are not followed",
    file: VENDOR,
    from: "if (status >= 300 && status < 400) {",
    to: "if (status >= 400 && status < 400) {",
    tests: LLM_FAILURE_TESTS,
  },
  {
    name: "egress: error bodies are bounded",
    file: VENDOR,
    from: "const ERROR_BYTES = 64 * 1024;",
    to: "const ERROR_BYTES = 640 * 1024;",
    tests: LLM_FAILURE_TESTS,
  },
  {
    name: "egress: error texts of a provider are not echoed",
    file: "packages/sdk/src/kernel/llm-failure.ts",
    from: 'typeof word === "string" && VENDOR_CODES.has(word)',
    to: 'typeof word === "string"',
    tests: LLM_FAILURE_TESTS,
  },
  {
    name: "credential: a credential is dropped when an address in any value changes",
    file: "packages/contract/src/vocabulary/config-key.ts",
    from: " || containsUrl(value)",
    to: " || containsUrl(key)",
    tests: DESTINATION_TESTS,
  },
  {
    name: "credential: a credential is not copied into an instance with another destination",
    file: "packages/agent/src/providers/bootstrap.ts",
    from: "!(has_other_destination && isSecretConfigKey(key))",
    to: 'key !== ""',
    tests: ["packages/agent/test/providers/bootstrap.test.ts"],
  },
];
