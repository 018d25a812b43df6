/** Promises about behaviour rather than defence: which rule applies, in which order, to whom. */
import type { Mutant } from "./mutant.ts";

export const BEHAVIOUR: Mutant[] = [
  {
    defence: "deadline: the host's maximum caps every export",
    file: "packages/door/src/open/open.ts",
    from: "Math.min(wanted, item.max_timeout_ms ?? host_max_ms, host_max_ms)",
    to: "Math.min(wanted, item.max_timeout_ms ?? host_max_ms)",
    tests: ["packages/door/test/invoke/deadline.test.ts"],
  },
  {
    defence: "secrets: only granted slots are delivered",
    file: "packages/registry/src/secrets/binding-secrets.ts",
    from: "for (const slot of grant.secret_slots) {",
    to: "void grant;\n  for (const slot of Object.keys(binding.secrets)) {",
    tests: ["packages/registry/test/bindings/bound-secrets.test.ts"],
  },
  {
    defence: "rollout: a project's binding comes before the org's",
    file: "packages/registry/src/bindings/rollout.ts",
    from: "    if (level !== 0) return level;\n",
    to: "    void level;\n",
    tests: ["packages/registry/test/bindings/rollout.test.ts"],
  },
  {
    defence: "session events: session.started is published",
    file: "packages/agent/src/agent/sessions.ts",
    from: '      publish(key, "session.started", { session_id, tape_name: session.name, workspace: key.workspace });\n',
    to: "",
    tests: ["packages/agent/test/agent/session-events.test.ts"],
  },
  {
    defence: "session events: session.forked is published",
    file: "packages/agent/src/agent/sessions.ts",
    from: '      publish(key, "session.forked", { parent_id: key.session_id, child_id });\n',
    to: "",
    tests: ["packages/agent/test/agent/session-events.test.ts"],
  },
  {
    defence: "session events: session.archived is published",
    file: "packages/agent/src/agent/sessions.ts",
    from: '        publish(key, "session.archived", { session_id, archive_path });\n',
    to: "",
    tests: ["packages/agent/test/agent/session-events.test.ts"],
  },
  {
    defence: "side calls: 5 s is the default timeout",
    file: "packages/supply/src/manifest/read-manifest.ts",
    from: "safeParse(withSideDefaults(raw))",
    to: "safeParse(raw)",
    tests: ["packages/gateway/test/plugins/side-process.test.ts"],
  },
  {
    defence: "side calls: capabilities come from the binding",
    file: "packages/registry/src/grant/effective-grant.ts",
    from: "capabilities: policy.capabilities ?? []",
    to: "capabilities: policy.capabilities",
    tests: ["packages/gateway/test/plugins/side-process.test.ts"],
  },
  {
    defence: "tool results: a bound tool's output is never the envelope on the tape",
    file: "packages/session/src/tape/outcome.ts",
    from: "isRegisteredTool(row.binding_id) && isEnvelope(structured)",
    to: "isEnvelope(structured)",
    tests: ["packages/agent/test/loop/tool-result.test.ts"],
  },
  {
    defence: "tool results: the tape holds the checked value",
    file: "packages/session/src/tape/outcome.ts",
    from: "if (structured !== undefined) payload.value = structured;",
    to: "",
    tests: ["packages/agent/test/loop/tool-result.test.ts"],
  },
];
