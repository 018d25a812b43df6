/** The network access, the secrets and the process of a call are not available to the next call. */
import { type Mutant, RUNNER } from "./mutant.ts";

export const CALL_DEFENSES: Mutant[] = [
  {
    name: "egress is refused without a call",
    file: `${RUNNER}/pool/worker.ts`,
    from: "return !this.resident && this.#unanswered === 0 && this.waiting === 0;",
    to: "return false;",
    tests: ["packages/runner/test/sandbox/egress.test.ts"],
  },
  {
    name: "egress is refused after a call was answered",
    file: `${RUNNER}/calls/call.ts`,
    from: "if (was_sent) this.#worker!.recordAnswer(this);",
    to: "",
    tests: ["packages/runner/test/sandbox/egress.test.ts"],
  },
  {
    name: "no name is resolved without a call",
    file: `${RUNNER}/egress/proxy/egress-state.ts`,
    from: "        await this.whenReleased();\n",
    to: "",
    tests: ["packages/runner/test/egress/proxy/hold.test.ts"],
  },
  {
    name: "a call that was answered while its destination was resolved gets no connection",
    file: `${RUNNER}/egress/proxy/forward-request.ts`,
    from: "  await connection.state.whenReleased();\n  if (connection.ended) return;\n  if (!connection.acquireSlot())",
    to: "  if (!connection.acquireSlot())",
    tests: ["packages/runner/test/egress/proxy/hold.test.ts"],
  },
  {
    name: "no bytes are forwarded without a call",
    file: `${RUNNER}/egress/proxy/pump.ts`,
    from: "if (held) from.pause();",
    to: "if (held) return;",
    tests: ["packages/runner/test/egress/proxy/hold.test.ts"],
  },
  {
    name: "secrets reach the environment only in a sandbox",
    file: `${RUNNER}/runner/refuse-request.ts`,
    from: "if (secrets && sandbox === null) {",
    to: "if (secrets && false) {",
    tests: ["packages/runner/test/secrets/secret-environment.test.ts"],
  },
  {
    name: "a call with a rotated secret gets a new process",
    file: `${RUNNER}/secrets/secret-environment.ts`,
    from: "if (secrets === null) return pool_key;",
    to: "if (secrets !== undefined) return pool_key;",
    tests: ["packages/runner/test/secrets/secret-environment.test.ts"],
  },
  {
    name: "the bytes of its package are compared when a prewarmed process gets a call",
    file: `${RUNNER}/pool/pool.ts`,
    from: "if (worker.verification !== null) await worker.verification;",
    to: "",
    tests: ["packages/runner/test/pool/prewarmed.test.ts"],
  },
  {
    name: "prewarmed processes start without the secrets of a call",
    file: `${RUNNER}/pool/prewarmed.ts`,
    from: "request: withoutCallData(request),",
    to: "request,",
    tests: ["packages/runner/test/pool/prewarmed.test.ts"],
    only: "that caused them",
  },
  {
    name: "prewarmed processes stop with their binding",
    file: `${RUNNER}/pool/pool.ts`,
    from: "this.#prewarmed.retire(binding_id, keep_pool_key);",
    to: "",
    tests: ["packages/runner/test/pool/prewarmed.test.ts"],
  },
];
