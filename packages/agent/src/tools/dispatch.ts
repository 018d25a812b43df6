/**
 * The tool dispatcher (ktool.dispatch): one subscriber that passes each tool.call.request to the door. The
 * door publishes the outcome when it settles the call, so a call that a crash interrupted is reported in the
 * same way. The dispatcher starts the call and returns, so that it never blocks the queue of the session.
 */

import { type BusEvent, codeOf, refusalKind, toBackplaneError } from "@backplane/contract";
import { type Door, invoke, type OfferedTool, SEARCH_TOOL } from "@backplane/door";
import type { Scope } from "@backplane/ports";
import { type KernelPort, type ToolOutcomeEvent, type TurnCall, toolErrorOutcome } from "@backplane/session";
import type { Turn } from "../loop/turn.ts";
import { endWithTurn } from "./end-with-turn.ts";

type CallRequest = BusEvent<"tool.call.request">;

export interface DispatcherDeps {
  port: KernelPort;
  door: Door;
  findRunningTurn: (scope: Scope, session_id: string) => Turn | undefined;
}

export function startDispatcher({ port, door, findRunningTurn }: DispatcherDeps): () => void {
  const { log } = door.deps;

  async function dispatch(event: CallRequest, turn: Turn): Promise<void> {
    const { name, args } = event.payload;
    const call: TurnCall = { key: turn.key, request: event, brief: null };
    const ids = { id: event.payload.id, request_id: event.id };
    const recordRefusal = (outcome: ToolOutcomeEvent) =>
      turn.waitFor(door.store_wait.run("a call", () => door.turn_tape.refuse(call, outcome), turn.signal));
    const tool = turn.tools.get(name);
    if (tool === undefined) {
      return await recordRefusal(toolErrorOutcome(ids, "not_found", `there is no tool ${name}`));
    }
    if (!turn.allows(name)) {
      turn.forbidden.push(name);
      return await recordRefusal(toolErrorOutcome(ids, "rejected", `this agent may not use ${name}`));
    }
    if (turn.hides(tool)) {
      const brief = `${name} must be found with ${SEARCH_TOOL} first`;
      return await recordRefusal(toolErrorOutcome(ids, "not_found", brief));
    }
    port.tryPublish("tool.call.start", { id: ids.id, name, args }, turn.to);
    call.brief = await readBrief(tool, event);
    // The call is not on the tape yet, so a turn that has ended in the meantime needs no result for it.
    if (turn.closing) return;
    await turn.waitFor(invokeThroughDoor(call, turn, tool));
  }

  /**
   * Invokes the tool through the door and waits for its end. A refusal by the door is an outcome, not a
   * rejection.
   */
  async function invokeThroughDoor(call: TurnCall, turn: Turn, tool: OfferedTool): Promise<void> {
    const { args, id } = call.request.payload;
    try {
      const { chain_id, id: run_id, trace_id } = turn.run;
      const { session_id } = turn.key;
      const target =
        tool.binding_id === null
          ? { export_id: tool.export_id, package_id: tool.package_id }
          : { binding_id: tool.binding_id };
      // A tool called by the turn is limited to the tools of the turn.
      const { tools: allowed } = turn.limits;
      const narrow = allowed === null ? {} : { narrow: { tools: [...allowed] } };
      const trace = trace_id === undefined ? {} : { trace_id };
      const body = { ...target, input: args as never, session_id, chain_id, run_id, ...trace, ...narrow };
      const request = { caller: turn.caller, body, turn: call, context: turn.context };
      // Nothing is on disk when the store fails here, so the call can be retried.
      const ticket = await door.store_wait.run(
        "a call",
        async () => {
          await door.lease.confirm(door.store_wait.max_wait_ms, turn.signal);
          return await invoke(door, request);
        },
        turn.signal,
      );
      const live = door.live.get(ticket.id);
      if (live !== undefined) await endWithTurn(door, turn, live);
    } catch (error) {
      const { code, message, details } = toBackplaneError(error);
      if (code === "run.taken_over") throw error;
      // The door has already recorded and published this refusal.
      if (details?.invocation_id !== undefined && code !== "gateway_stopping") return;
      const ids = { id, request_id: call.request.id };
      const outcome = toolErrorOutcome(ids, refusalKind(code) ?? "rejected", message);
      await door.store_wait.run("a call", () => door.turn_tape.refuse(call, outcome), turn.signal);
    }
  }

  async function readBrief(tool: OfferedTool, { payload }: CallRequest): Promise<string | null> {
    const registered_tool = tool.binding_id === null ? null : door.bindings.tool(tool.binding_id);
    if (registered_tool?.spec.requires_approval !== true) return null;
    try {
      return await registered_tool.brief(payload.args as never);
    } catch (error) {
      log.warn({ err: error, tool: tool.name }, "the approval brief of a tool could not be read");
      return null;
    }
  }

  return port.subscribe("tool.call.request", (event) => {
    const turn = findRunningTurn(event, event.session_id);
    if (turn === undefined || !turn.acceptsCall(event.payload.step)) {
      log.warn({ session_id: event.session_id }, "a tool call outside a turn was dropped");
      return;
    }
    dispatch(event, turn).catch((error: unknown) => {
      if (codeOf(error) === "run.taken_over") {
        turn.stop("lost");
        return;
      }
      log.error({ err: error, code: codeOf(error) }, "a tool call could not be recorded");
      const brief = toBackplaneError(error).message;
      const ids = { id: event.payload.id, request_id: event.id };
      port.tryPublish("tool.error", { ...ids, kind: "rejected", brief }, turn.to);
    });
  });
}
