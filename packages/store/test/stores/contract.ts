/** The test cases for every implementation of the store. */

import type { Subject } from "../support/subject.ts";
import { accessCases } from "./contract-access.ts";
import { allowRuleCases } from "./contract-allow-rules.ts";
import { bindingCases } from "./contract-bindings.ts";
import { chainCases } from "./contract-chains.ts";
import { configCases } from "./contract-config.ts";
import { definitionCases } from "./contract-definitions.ts";
import { executionCases } from "./contract-executions.ts";
import { fenceCases } from "./contract-fences.ts";
import { idempotencyCases } from "./contract-idempotency.ts";
import { installationCases } from "./contract-installations.ts";
import { invocationCases } from "./contract-invocations.ts";
import { llmCallCases } from "./contract-llm-calls.ts";
import { policyCases } from "./contract-policies.ts";
import { queueCases } from "./contract-queues.ts";
import { replayCases } from "./contract-replay.ts";
import { retentionCases } from "./contract-retention.ts";
import { runCases } from "./contract-runs.ts";
import { samplingCases } from "./contract-sampling.ts";
import { sealedCases } from "./contract-sealed.ts";
import { sessionCases } from "./contract-sessions.ts";
import { signInCases } from "./contract-sign-ins.ts";
import { trustedKeyCases } from "./contract-trusted-keys.ts";

export function storeContract(subject: () => Subject): void {
  bindingCases(() => subject().store);
  installationCases(() => subject().store);
  definitionCases(() => subject().store);
  invocationCases(() => subject().store);
  allowRuleCases(() => subject().store);
  trustedKeyCases(() => subject().store);
  accessCases(subject);
  configCases(() => subject().store);
  policyCases(() => subject().store);
  sealedCases(() => subject().store);
  signInCases(() => subject().store);
  samplingCases(subject);
  queueCases(() => subject().store);
  sessionCases(subject);
  chainCases(subject);
  replayCases(subject);
  runCases(() => subject().store);
  executionCases(() => subject().store);
  llmCallCases(() => subject().store);
  fenceCases(() => subject().store);
  idempotencyCases(() => subject().store);
  retentionCases(subject);
}
