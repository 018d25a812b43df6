/** Asks the session's strategy what comes next, and holds its answer against the fixed order (loop.order). */

import {
  type AgentLoopState,
  BackplaneError,
  type Decision,
  type JsonObject,
  LOOP_LIMITS,
  NEXT_STEPS,
} from "@backplane/contract";
import type { KernelPort } from "@backplane/session";
import type { Turn } from "./turn.ts";

export async function decide(
  port: KernelPort,
  strategyOf: (strategy: string) => string | null,
  turn: Turn,
  state: AgentLoopState,
): Promise<Decision> {
  const { strategy } = turn.run;
  const from = strategyOf(strategy);
  if (from === null) throw new BackplaneError("loop.failed", `the strategy ${strategy} is no longer loaded`);
  const reply = await port.request(
    "strategy.decide.request",
    { state: state as unknown as JsonObject, strategy },
    {
      ...turn.to,
      reply: "strategy.decide.response",
      from,
      timeout_ms: LOOP_LIMITS.decide_ms,
      signal: turn.signal,
    },
  );
  const decision = reply.payload as unknown as Decision;
  const pending = state.last_response?.tool_calls.length ?? 0;
  const allowed =
    NEXT_STEPS[state.phase].includes(decision.next) && (decision.next !== "tool" || pending > 0);
  if (!allowed) {
    throw new BackplaneError(
      "loop.failed",
      `the strategy ${strategy} wants ${decision.next} after ${state.phase}, which is against the order`,
    );
  }
  return decision;
}
