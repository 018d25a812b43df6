/** One table of cases for every implementation of the store. */
import { accessCases } from "./contract-access.ts";
import { bindingCases } from "./contract-bindings.ts";
import { configCases } from "./contract-config.ts";
import { invocationCases } from "./contract-invocations.ts";
import { queueCases } from "./contract-queues.ts";
import { sessionCases } from "./contract-sessions.ts";
import type { Subject } from "./subject.ts";

export function storeContract(subject: () => Subject): void {
  bindingCases(() => subject().store);
  invocationCases(() => subject().store);
  accessCases(subject);
  configCases(() => subject().store);
  queueCases(() => subject().store);
  sessionCases(subject);
}
