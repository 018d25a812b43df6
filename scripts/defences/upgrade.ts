/** A binding that moves to another version keeps its settings and loses trust in other bytes. */
import type { Mutant } from "./mutant.ts";

const BINDINGS = "packages/registry/src/bindings/bindings.ts";
const PLAN = "packages/registry/src/bindings/plan-change.ts";
const MOVE = "packages/registry/src/bindings/move-binding.ts";
const CONFINE = "packages/door/src/replay/confine.ts";
const REPLAYS = "packages/door/src/replay/replay.ts";
const REPLAY = ["packages/door/test/replay/replay.test.ts"];
const UPGRADE = ["packages/registry/test/bindings/upgrade.test.ts"];

export const UPGRADE_DEFENCES: Mutant[] = [
  {
    defence: "upgrade: a second version moves the binding",
    file: PLAN,
    from: "body.rollout === undefined && others.length > 0 && !shared",
    to: "false",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: a rollout share keeps the settings",
    file: PLAN,
    from: "policy: { ...kept?.policy, ...policy },",
    to: "policy: { ...policy },",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: host trust is dropped",
    file: MOVE,
    from: "...(host_target === false ? { host_target } : {}),",
    to: "...(host_target === undefined ? {} : { host_target }),",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: a lowered class is dropped",
    file: MOVE,
    from: "...(chosen === undefined || lowered ? {} : { class: chosen }),",
    to: "...(chosen === undefined ? {} : { class: chosen }),",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: new permissions are withheld",
    file: PLAN,
    from: "draft.policy = narrowed.policy;",
    to: "",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: a missing secret keeps the old version",
    file: PLAN,
    from: 'if (moves && before.status === "active" && row.status === "inactive")',
    to: "if (false as boolean)",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: only the host's admin restores trust by a rollback",
    file: BINDINGS,
    from: "const policy = caller.actor === HOST_ADMIN ?",
    to: 'const policy = caller.actor !== "" ?',
    tests: UPGRADE,
  },
  {
    defence: "upgrade: all bindings or none",
    file: "packages/store/src/ops/bindings.ts",
    from: "    if (yield* updateBinding(change)) continue;\n",
    to: "    if ((yield* updateBinding(change)) || change.expected > 0) continue;\n",
    tests: ["packages/store/test/contract-sqlite.test.ts"],
  },
  {
    defence: "upgrade: a rollback to other bytes gives no trust",
    file: BINDINGS,
    from: "const same = to.package.digest === digest;",
    to: 'const same = digest !== "";',
    tests: UPGRADE,
  },
  {
    defence: "upgrade: a rollout share gets no more permissions than the rest",
    file: PLAN,
    from: "return { policy: narrowed.policy, secrets };",
    to: "return { policy: narrowed.withheld.length > 0 ? policy : narrowed.policy, secrets };",
    tests: UPGRADE,
  },
  {
    defence: "upgrade: an instrument in another class keeps its settings",
    file: "packages/servers/src/instruments/instruments.ts",
    from: "const policy = { ...binding.policy, ...added.policy };",
    to: "const policy = { ...added.policy };",
    tests: ["packages/servers/test/instruments/instruments.test.ts"],
  },
  {
    defence: "upgrade: --dry-run changes nothing",
    file: "packages/cli/src/commands/plugin/upgrade-plugin.ts",
    from: 'context.out.data({ bindings: moved }, () => "Nothing was changed.");\n    return undefined;',
    to: 'context.out.data({ bindings: moved }, () => "Nothing was changed.");',
    tests: ["packages/cli/test/commands/plugin/upgrade.test.ts"],
  },
  {
    defence: "upgrade: what changes is shown first",
    file: "packages/cli/src/commands/plugin/upgrade-plugin.ts",
    from: "  await showChanges(context, target, moving);\n",
    to: "",
    tests: ["packages/cli/test/commands/plugin/upgrade.test.ts"],
  },
  {
    defence: "upgrade: a version that does not start is refused",
    file: "packages/registry/src/bindings/probe-versions.ts",
    from: "if (FAILURES.has(failure.code)) throw refused(before, row, failure);",
    to: "if (FAILURES.size === 0) throw refused(before, row, failure);",
    tests: ["packages/registry/test/bindings/hot-changes.test.ts"],
  },
  {
    defence: "upgrade: an installation starts the new version before it is stored",
    file: "packages/registry/src/installations/installations.ts",
    from: "if (changing !== true) await versions.requireStart(changes, operation);",
    to: "if (changing === undefined) await versions.requireStart([], operation);",
    tests: ["packages/registry/test/bindings/hot-changes.test.ts"],
  },
  {
    defence: "upgrade: an unhealthy instrument is refused",
    file: "packages/runner/src/dialects/instruments/instrument-rpc.ts",
    from: 'if (status === "Unhealthy")',
    to: "if (status === undefined)",
    tests: ["packages/runner/test/runner/probe.test.ts"],
  },
  {
    defence: "binding: a change gets processes of its own",
    file: "packages/registry/src/exports/export-plan.ts",
    from: "@${generation}",
    to: "@0",
    tests: ["packages/registry/test/bindings/hot-changes.test.ts"],
  },
  {
    defence: "replay: a replayed call has no network",
    file: CONFINE,
    from: 'network: "none", ',
    to: "",
    tests: REPLAY,
  },
  {
    defence: "replay: a replayed call gets no secrets",
    file: REPLAYS,
    from: "const secrets = placeholderSecrets(grant);",
    to: "const secrets = await door.tokens.readSecrets({ ...bound, binding: { ...bound.binding } }, grant);",
    tests: REPLAY,
  },
  {
    defence: "replay: folders of the host are read-only",
    file: CONFINE,
    from: "mounts: mounts.map((mount) => ({ ...mount, writable: false })),",
    to: "mounts,",
    tests: REPLAY,
  },
  {
    defence: "replay: only read-only calls are replayed",
    file: REPLAYS,
    from: 'call.export_kind !== "tool" || call.effect_class !== "read_only"',
    to: 'call.export_kind !== "tool"',
    tests: REPLAY,
  },
  {
    defence: "replay: a tool that is no longer read-only does not run",
    file: REPLAYS,
    from: 'if (call.plan.effect_class !== "read_only")',
    to: "if (false as boolean)",
    tests: REPLAY,
  },
  {
    defence: "replay: it needs the sandbox",
    file: REPLAYS,
    from: "if (available && enabled) return;",
    to: "if (available || !enabled) return;",
    tests: REPLAY,
  },
  {
    defence: "replay: a connection that only the candidate attempts holds it",
    file: REPLAYS,
    from: "const held = requested.length + attempted.size > 0;",
    to: "const held = requested.length > 0;",
    tests: REPLAY,
  },
  {
    defence: "replay: a permission that only the candidate requests holds it",
    file: REPLAYS,
    from: "const held = requested.length + attempted.size > 0;",
    to: "const held = attempted.size > 0;",
    tests: REPLAY,
  },
];
