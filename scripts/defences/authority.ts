/** What was allowed to begin does not go on after its key, role, binding or project is taken away. */
import type { Mutant } from "./mutant.ts";

const KERNEL = "packages/kernel/src";
const TURNS = ["packages/kernel/test/authority/turns.test.ts"];
const NAMED = ["packages/kernel/test/authority/session-ids.test.ts"];
const COVERED = [
  "packages/kernel/test/approval/covered.test.ts",
  "packages/kernel/test/approval/coverage.test.ts",
];
const DELEGATED = ["packages/kernel/test/keys/delegation.test.ts"];
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
    from: "    await authority.require(asker);\n",
    to: "",
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
  {
    defence: "session ids: a right to the session that is named",
    file: `${KERNEL}/authority/named-ids.ts`,
    from: '  throw new BackplaneError("auth.scope", `The session',
    to: '  void new BackplaneError("auth.scope", `The session',
    tests: NAMED,
  },
  {
    defence: "session ids: a chain of the session that is named",
    file: `${KERNEL}/authority/named-ids.ts`,
    from: "chain === null || !belongs(chain, of)",
    to: "chain === null",
    tests: NAMED,
  },
  {
    defence: "session ids: a run of the session that is named",
    file: `${KERNEL}/authority/named-ids.ts`,
    from: "run === null || !belongs(run, of)",
    to: "run === null",
    tests: NAMED,
  },
  {
    defence: "session ids: a call acts for its own turn alone",
    file: `${KERNEL}/agent/agent.ts`,
    from: "row == null || row.turn === null || row.run_id === null ? undefined : loop.turnOf(row.run_id)",
    to: "row?.session_id == null ? undefined : loop.turnAt(row, row.session_id)",
    tests: NAMED,
  },
  {
    defence: "session approval: for the identity that asked",
    file: `${KERNEL}/approval/session-grants.ts`,
    from: "workspace, session_id, identity, digest]",
    to: "workspace, session_id, digest, void identity]",
    tests: NAMED,
  },
  {
    defence: "session approval: in its own workspace",
    file: `${KERNEL}/approval/session-grants.ts`,
    from: "scope.project_id, workspace, session_id, identity",
    to: "scope.project_id, void workspace, session_id, identity",
    tests: NAMED,
  },
  {
    defence: "session approval: as long as the approver's key holds",
    file: `${KERNEL}/invoke/record.ts`,
    from: "approver !== null && (await authority.revocationOf(approver)) === null",
    to: "approver !== null && authority !== null",
    tests: NAMED,
  },
  {
    defence: "approval: a change is a new question",
    file: `${KERNEL}/approval/approve.ts`,
    from: "if (coverage.digest !== approval.digest)",
    to: "if (coverage.digest === null)",
    tests: COVERED,
  },
  {
    defence: "approval: a change in line or between tries",
    file: `${KERNEL}/invoke/run.ts`,
    from: "if (digest === live.approved.digest) return null;",
    to: "if (digest !== null) return null;",
    tests: COVERED,
  },
  ...(["config", "secrets", "grant"] as const).map((part) => ({
    defence: `approval: the digest covers ${part}`,
    file: `${KERNEL}/approval/coverage.ts`,
    from: `...Object.entries(${part}).map(`,
    to: `...Object.entries({} as typeof ${part}).map(`,
    tests: COVERED,
  })),
  {
    defence: "delegated token: from the process of its call",
    file: `${KERNEL}/keys/authenticate.ts`,
    from: "return expected === null || (proof !== undefined && sameText(proof, expected));",
    to: "return expected === null || proof !== null || sameText(expected, expected);",
    tests: DELEGATED,
  },
  {
    defence: "delegated token: on the gateway of its call",
    file: `${KERNEL}/keys/authenticate.ts`,
    from: 'return runs_as === "inline" || grant?.host === true || !runner.health().sandbox.enabled;',
    to: "return runs_as !== undefined || grant !== null;",
    tests: DELEGATED,
  },
  {
    defence: "delegated token: the relay says by whose listener a request came",
    file: "packages/runner/src/egress/proxy/forward-request.ts",
    from: 'adds === undefined ? ["host"] : ["host", adds[0].toLowerCase()]',
    to: '["host"]',
    tests: ["packages/runner/test/egress/proxy/reach-gateway.test.ts"],
  },
];
