/** What was allowed to begin does not go on after its key, role, binding or project is taken away. */
import type { Mutant } from "./mutant.ts";

const KERNEL = "packages/kernel/src";
const TURNS = ["packages/kernel/test/authority/turns.test.ts"];
const CALLS = ["packages/kernel/test/authority/calls.test.ts"];

export const AUTHORITY_DEFENCES: Mutant[] = [
  {
    defence: "authority: a rule of admission",
    file: `${KERNEL}/policy/rules.ts`,
    from: "const revocation = standing.revoked ?? revokedByPolicy(policy, standing);",
    to: "const revocation = null as ReturnType<typeof revokedByPolicy>; void standing; void policy;",
    tests: CALLS,
  },
  {
    defence: "authority: asked again before a call that waited",
    file: `${KERNEL}/invoke/run.ts`,
    from: "clock.monotonic() - live.checked_at > FRESH_MS",
    to: "false",
    tests: CALLS,
  },
  {
    defence: "authority: asked before each step of a turn",
    file: `${KERNEL}/loop/steps.ts`,
    from: "    await deps.permit(turn.caller);\n",
    to: "",
    tests: TURNS,
  },
  {
    defence: "authority: asked before each try of a model call",
    file: `${KERNEL}/loop/steps.ts`,
    from: "permit: () => deps.permit(turn.caller),",
    to: "",
    tests: TURNS,
  },
  {
    defence: "authority: asked before a turn begins",
    file: `${KERNEL}/loop/begin-turn.ts`,
    from: "await deps.permit({ ...caller, scope: key.scope });",
    to: "",
    tests: TURNS,
  },
  {
    defence: "authority: asked before a turn goes on after a crash",
    file: `${KERNEL}/loop/resume.ts`,
    from: "  await deps.permit(caller);\n",
    to: "",
    tests: TURNS,
  },
  {
    defence: "authority: of whoever an approval would run for",
    file: `${KERNEL}/approval/approvals.ts`,
    from: 'if (body.response !== "reject") await requireAsker(approval);',
    to: "void requireAsker;",
    tests: CALLS,
  },
  {
    defence: "authority: of whoever answers an approval",
    file: `${KERNEL}/approval/approvals.ts`,
    from: "await authority.require(caller);",
    to: "",
    tests: CALLS,
  },
  {
    defence: "authority: waiting and running calls are looked at",
    file: `${KERNEL}/authority/revocation-watch.ts`,
    from: "if (why !== null && call.stopped === null) stopCall(call, why);",
    to: "void stopCall;",
    tests: CALLS,
  },
  {
    defence: "authority: running turns are looked at",
    file: `${KERNEL}/authority/revocation-watch.ts`,
    from: "if (why !== null) turn.revoke(why);",
    to: "",
    tests: TURNS,
  },
  {
    defence: "authority: calls in line of a disabled binding are looked at",
    file: `${KERNEL}/authority/revocation-watch.ts`,
    from: 'why === null && call.stage !== "running"',
    to: "false",
    tests: CALLS,
  },
  {
    defence: "authority: bindings between a call and its root",
    file: `${KERNEL}/authority/authority.ts`,
    from: "if (revoked !== null) return { root: actor, role, revoked };",
    to: "",
    tests: CALLS,
  },
  {
    defence: "authority: a delegated token of a revoked key",
    file: `${KERNEL}/keys/authenticate.ts`,
    from: "(await authority.revocationOf(caller)) !== null",
    to: "(await authority.revocationOf(caller)) === undefined",
    tests: CALLS,
  },
  {
    defence: "authority: expiry",
    file: `${KERNEL}/authority/authority.ts`,
    from: "Date.parse(key.expires_at) > this.#deps.clock.now()",
    to: "Date.parse(key.expires_at) > 0",
    tests: TURNS,
  },
];
