/** The model endpoints spend an organization's money and hold its vendor credentials. */
import type { Mutant } from "./mutant.ts";

const ENDPOINTS = "packages/agent/src/llm-endpoints/llm-endpoints.ts";
const RECORDS_TESTS = ["packages/api/test/llm/records.test.ts"];
const OPENAI_CLIENT_TESTS = ["packages/api/test/llm/openai-client.test.ts"];
const ANTHROPIC_CLIENT_TESTS = ["packages/api/test/llm/anthropic-client.test.ts"];
const ERRORS_TESTS = ["packages/api/test/llm/errors.test.ts"];
const LLM_ENDPOINTS_TESTS = ["packages/agent/test/llm-endpoints/llm-endpoints.test.ts"];

export const LLM_ENDPOINT_DEFENCES: Mutant[] = [
  {
    defence: "llm endpoints: a budget is checked by the update that counts the call",
    file: "packages/store/src/ops/llm-calls.ts",
    from: "and requests < $4 and tokens < $5 returning subject",
    to: "and requests <= $4 and tokens < $5 returning subject",
    tests: RECORDS_TESTS,
  },
  {
    defence: "llm endpoints: a running call reserves its tokens",
    file: "packages/store/src/ops/llm-calls.ts",
    from: "set requests = requests + 1, tokens = tokens + $3",
    to: "set requests = requests + 1, tokens = tokens + 0 * $3",
    tests: RECORDS_TESTS,
  },
  {
    defence: "llm endpoints: the limits of a key apply to its delegated calls",
    file: ENDPOINTS,
    from: "const { actor } = await door.authority.resolveRoot(caller);",
    to: "const { actor } = caller;",
    tests: RECORDS_TESTS,
  },
  {
    defence: "llm endpoints: a key can use only its allowed models",
    file: "packages/agent/src/llm-endpoints/offered-models.ts",
    from: "if (matches(id)) offered.push(",
    to: "if (matches(id) || true) offered.push(",
    tests: RECORDS_TESTS,
  },
  {
    defence: "llm endpoints: a client that disconnects cancels the call at the provider",
    file: ENDPOINTS,
    from: 'signal.addEventListener("abort", interrupt, { once: true });',
    to: "",
    tests: RECORDS_TESTS,
    hangs: true,
  },
  {
    defence: "llm endpoints: responses are not stored by the vendor",
    file: "plugins/llm-openai/src/native.ts",
    from: "{ ...body, store: false }",
    to: "{ ...body }",
    tests: OPENAI_CLIENT_TESTS,
  },
  {
    defence: "llm endpoints: a response cannot be continued by its id",
    file: "packages/api/src/llm/responses.ts",
    from: "if (previous_response_id != null)",
    to: "if (previous_response_id === 1)",
    tests: OPENAI_CLIENT_TESTS,
  },
  {
    defence: "llm endpoints: a vendor does not get another vendor's thinking blocks",
    file: "packages/api/src/llm/messages.ts",
    from: 'type === "thinking" && (signature',
    to: 'type === "none" && (signature',
    tests: ANTHROPIC_CLIENT_TESTS,
  },
  {
    defence: "llm endpoints: a rejected vendor key is not reported as the client's key",
    file: "packages/api/src/llm/endpoint-error.ts",
    from: "PASSED_ON.has(status_code) ? status_code : 502",
    to: "status_code > 0 ? status_code : 502",
    tests: ERRORS_TESTS,
  },
  {
    defence: "llm endpoints: the running calls of one credential are limited",
    file: ENDPOINTS,
    from: "if (count >= MAX_CALLS_PER_CALLER)",
    to: "if (count >= MAX_CALLS_PER_CALLER * 99)",
    tests: LLM_ENDPOINTS_TESTS,
    only: "running model calls of one credential",
  },
  {
    defence: "llm endpoints: tokens are reserved for each requested answer",
    file: ENDPOINTS,
    from: "reservedOutput(request.options.max_tokens) * countChoices(request.body)",
    to: "reservedOutput(request.options.max_tokens)",
    tests: LLM_ENDPOINTS_TESTS,
    only: "each answer that a client",
  },
  {
    defence: "llm endpoints: a live gateway ends the calls of a stopped gateway",
    file: ENDPOINTS,
    from: "if (store.shared) scheduleSweep();",
    to: "",
    tests: LLM_ENDPOINTS_TESTS,
    only: "ends lost calls",
  },
];
