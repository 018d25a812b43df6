/**
 * Runs core tools and tools of kernel plugins for the door, and forwards every other call to the process runner. Inline
 * code cannot be stopped: at the deadline its signal is aborted, the call ends, and a later answer is discarded.
 */

import {
  BackplaneError,
  codeOf,
  IdTable,
  type Json,
  type JsonObject,
  type ToolReturn,
} from "@backplane/contract";
import type {
  Clock,
  RegisteredTool,
  RunListener,
  Runner,
  RunOutcome,
  RunRequest,
  Scope,
} from "@backplane/ports";
import { displayText } from "@backplane/session";

export interface ModuleRunnerDeps {
  runner: Runner;
  clock: Clock;
  /** Returns the tool of one of the gateway's own bindings. */
  findTool: (binding_id: string) => RegisteredTool | null;
  /** Creates a handle by which the tool uses kernel services on behalf of this call. */
  mint(call: ModuleCall): { as: string; end(): void };
}

interface ModuleCall {
  plugin: string;
  scope: Scope;
  invocation_id: string;
  session_id: string | null;
}

type EndCall = (ending: Pick<RunOutcome, "status" | "error">) => void;

export function createModuleRunner(deps: ModuleRunnerDeps): Runner {
  const { runner, clock } = deps;
  const running = new IdTable<EndCall>();

  async function call(tool: RegisteredTool, request: RunRequest, listener: RunListener): Promise<RunOutcome> {
    const { context } = request;
    const stop = new AbortController();
    const scope = { org_id: context.org_id, project_id: context.project_id ?? null };
    const session_id = context.session_id ?? null;
    const id = request.tool_call_id ?? (request.body.tool_execution_id as string);
    const handle = deps.mint({
      plugin: tool.plugin,
      scope,
      invocation_id: request.invocation_id,
      session_id,
    });
    const { promise: stopped, resolve } = Promise.withResolvers<RunOutcome>();
    const end: EndCall = ({ status, error }) => {
      resolve(buildOutcome(status, null, error));
      stop.abort();
    };
    running.set(request.invocation_id, end);
    const timer = clock.after(request.timeout_ms, () =>
      end({ status: "failed", error: { code: "timeout", message: "the tool did not answer in time" } }),
    );
    let ended = false;
    const answer = runTool(tool, request.body.input as JsonObject, {
      id,
      invocation_id: request.invocation_id,
      session_id,
      deadline_at: context.deadline_at,
      signal: stop.signal,
      as: handle.as,
      scope,
      progress: (event) => {
        if (!ended) listener.event(event);
      },
    });
    try {
      return await Promise.race([answer, stopped]);
    } finally {
      ended = true;
      timer.stop();
      handle.end();
      running.delete(request.invocation_id);
    }
  }

  return {
    ...pickProcessOperations(runner),
    run(request, listener) {
      if (request.package.runtime.protocol !== "module.kernel") return runner.run(request, listener);
      const tool = deps.findTool(request.binding_id);
      if (tool === null) {
        const error = {
          code: "tool_not_exposed",
          message: `the plugin of ${request.export_id} is not loaded`,
        };
        return Promise.resolve({ ...buildOutcome("failed", null, error), dispatched: false });
      }
      return call(tool, request, listener);
    },
    cancel(invocation_id, reason) {
      const end = running.get(invocation_id);
      if (end === undefined) return runner.cancel(invocation_id, reason);
      const code = reason === "user" ? "cancelled" : "gateway_stopping";
      end({
        status: reason === "user" ? "cancelled" : "failed",
        error: { code, message: new BackplaneError(code).message },
      });
      return true;
    },
    retire: (binding_id, keep) => runner.retire(binding_id, keep),
    runs: (protocol) => runner.runs?.(protocol) ?? true,
    health: () => runner.health(),
    close: (grace_ms) => runner.close(grace_ms),
  };
}

/** Returns the operations that apply only to processes. A runner may lack any of them. */
function pickProcessOperations({
  describe,
  probe,
  request,
  serves,
  listServers,
  observe,
  onNotification,
  fetch,
  listenerProof,
}: Runner): Pick<
  Runner,
  | "describe"
  | "probe"
  | "request"
  | "serves"
  | "listServers"
  | "observe"
  | "onNotification"
  | "fetch"
  | "listenerProof"
> {
  return {
    ...(describe === undefined ? {} : { describe }),
    ...(probe === undefined ? {} : { probe }),
    ...(request === undefined ? {} : { request }),
    ...(serves === undefined ? {} : { serves }),
    ...(listServers === undefined ? {} : { listServers }),
    ...(observe === undefined ? {} : { observe }),
    ...(onNotification === undefined ? {} : { onNotification }),
    ...(fetch === undefined ? {} : { fetch }),
    ...(listenerProof === undefined ? {} : { listenerProof }),
  };
}

type Call = Parameters<RegisteredTool["run"]>[1];

async function runTool(tool: RegisteredTool, args: JsonObject, call: Call): Promise<RunOutcome> {
  try {
    return toOutcome(await tool.run(args, call));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const code = codeOf(error) ?? "crashed";
    return buildOutcome("failed", null, { code, message });
  }
}

/**
 * Converts the envelope to a tool result: its text for the model, and the envelope itself as the structured
 * output.
 */
function toOutcome(answer: ToolReturn): RunOutcome {
  const { ok, brief, display } = answer;
  const envelope: JsonObject = { ok, brief, display: display as unknown as Json };
  if (!answer.ok) envelope.kind = answer.kind;
  return buildOutcome(
    "succeeded",
    {
      content: answer.content ?? [{ type: "text", text: displayText(answer.display) }],
      structured_output: envelope,
      is_error: !ok,
    },
    null,
  );
}

function buildOutcome(status: RunOutcome["status"], result: Json, error: RunOutcome["error"]): RunOutcome {
  return { status, result, error, violations: 0, stderr_tail: null, egress: null, dispatched: true };
}
