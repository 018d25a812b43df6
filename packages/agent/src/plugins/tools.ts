/** Adapts tools of kernel plugins for the door: typed tools, and legacy tools that answer an event. */

import {
  BackplaneError,
  type BusEvent,
  type ContentBlock,
  type IdSource,
  isContent,
  isObject,
  type Json,
  type JsonObject,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  findKernelToolProblem,
  TOOL_BRIEF_LENGTH,
  TOOL_ERROR_KINDS,
  type ToolReturn,
} from "@backplane/contract";
import type { Clock, RegisteredTool, Scope } from "@backplane/ports";
import { snapshot } from "@backplane/session";
import type { Instance } from "./instance.ts";
import type { LegacyResult } from "./legacy-calls.ts";
import { withTimeout } from "./with-timeout.ts";

export interface ToolDeps {
  clock: Clock;
  ids: IdSource;
  brief_ms: number;
}

export function adaptTypedTool(deps: ToolDeps, instance: Instance, tool: KernelTool): RegisteredTool {
  const spec = checkSpec(tool);
  if (typeof tool.run !== "function") throw invalid(`tool ${spec.name} has no run()`);
  return {
    ...buildIdentity(instance, spec, false),
    run: (args, call) => instance.track(async () => checkReturn(spec.name, await tool.run(args, call))),
    brief: async (args) => {
      if (tool.approvalBrief === undefined) return null;
      // A brief that fails is ignored, because the prompt can show the call without it.
      const getBrief = () => tool.approvalBrief!(args);
      const brief = await withTimeout(deps.clock, deps.brief_ms, "the approval brief", getBrief).catch(
        () => null,
      );
      return typeof brief === "string" && brief !== "" ? truncateBrief(brief) : null;
    },
    ...(tool.preApprove === undefined
      ? {}
      : {
          preApprove: async (args) => {
            const decide = () => tool.preApprove!(args);
            const answer = withTimeout(deps.clock, deps.brief_ms, "preApprove", decide);
            return (await answer.catch(() => false)) === true;
          },
        }),
  };
}

/** Returns null for a plugin without a legacy tool. */
export function adaptLegacyTool(deps: ToolDeps, instance: Instance): RegisteredTool | null {
  const { toolName, jsonSchema, description, requiresApproval } = instance.plugin;
  if (toolName === undefined) return null;
  const spec = checkSpec({
    name: toolName,
    description: description ?? toolName,
    parameters: jsonSchema ?? { type: "object" },
    ...(requiresApproval === undefined ? {} : { requires_approval: requiresApproval }),
  });
  if (typeof instance.plugin.onEvent !== "function")
    throw invalid(`tool ${toolName} has no onEvent() to handle its calls`);
  return {
    ...buildIdentity(instance, spec, true),
    brief: () => Promise.resolve(null),
    run: (args, call) => instance.track(() => callLegacy(deps, instance, toolName, args, call)),
  };
}

async function callLegacy(
  deps: ToolDeps,
  instance: Instance,
  name: string,
  args: JsonObject,
  call: KernelToolCall & { scope: Scope },
): Promise<ToolReturn> {
  const { scope } = call;
  const event: BusEvent = Object.freeze({
    id: deps.ids.next("event"),
    kind: "tool.call.request",
    session_id: call.session_id ?? `_bridge:${instance.name}`,
    ts: deps.clock.now() / 1000,
    source: "kernel",
    org_id: scope.org_id,
    project_id: scope.project_id,
    payload: snapshot({ id: call.id, name, args }),
  });
  const result = await instance.legacy.call(event.id, call.signal, async () => {
    try {
      await instance.plugin.onEvent!(event, instance.getContext(scope));
    } catch (error) {
      instance.report(error ?? new Error("the plugin threw an empty value"));
      throw error;
    }
    instance.report(null);
  });
  return fromLegacy(name, result);
}

function fromLegacy(name: string, { ok, value, error, envelope, content }: LegacyResult): ToolReturn {
  const blocks = content === undefined ? {} : { content: content as ContentBlock[] };
  if (envelope !== undefined) return checkReturn(name, { ...blocks, ...envelope });
  const output = ok ? value : (error ?? value);
  const display =
    typeof output === "string"
      ? ({ kind: "text", text: output } as const)
      : ({ kind: "json", data: (output ?? null) as Json } as const);
  const text = typeof output === "string" && output !== "" ? output : name;
  if (ok) return { ok: true, brief: truncateBrief(text), display, ...blocks };
  return { ok: false, kind: "failed", brief: truncateBrief(error ?? `${name} failed`), display, ...blocks };
}

/** A plugin's answer is untyped at run time, so its shape is checked here. */
function checkReturn(name: string, value: unknown): ToolReturn {
  const answer = value as Partial<ToolReturn> | null | undefined;
  const malformed = (problem: string) =>
    new BackplaneError("malformed_response", `The tool ${name} returned a result without ${problem}.`, {
      fix: "Return {ok, brief, display}, and kind where ok is false.",
    });
  if (typeof answer !== "object" || answer === null) throw malformed("a result object");
  if (typeof answer.brief !== "string") throw malformed("a brief");
  const { display, brief } = answer;
  if (typeof display !== "object" || display === null || !isDisplay(display))
    throw malformed("a display block");
  if (answer.content !== undefined && !isContent(answer.content as Json))
    throw malformed("valid content blocks");
  const content = answer.content === undefined ? {} : { content: answer.content };
  if (answer.ok === true) return { ok: true, brief: truncateBrief(brief), display, ...content };
  if (answer.ok !== false) throw malformed("ok");
  const { kind } = answer;
  if (kind === undefined || !TOOL_ERROR_KINDS.includes(kind)) throw malformed("one of the error kinds");
  return { ok: false, kind, brief: truncateBrief(brief), display, ...content };
}

function isDisplay(display: { kind?: unknown; text?: unknown; markdown?: unknown; data?: unknown }): boolean {
  if (display.kind === "text") return typeof display.text === "string";
  if (display.kind === "markdown") return typeof display.markdown === "string";
  return display.kind === "json" && display.data !== undefined;
}

function buildIdentity(instance: Instance, spec: KernelToolSpec, legacy: boolean) {
  const {
    name: plugin,
    plugin: { version },
    mode,
    generation,
    entry,
    digest,
  } = instance;
  const origin: RegisteredTool["origin"] = entry.origin === "bundled" ? "bundled" : "plugin";
  const installed_at = entry.installed_at ?? "";
  const code = digest === undefined ? {} : { digest };
  return { spec, plugin, version, mode, origin, installed_at, legacy, generation, ...code };
}

function checkSpec(tool: KernelToolSpec): KernelToolSpec {
  const { name, description, requires_approval, effect_class, timeout_ms } = tool;
  const { risk, category, deferred, recoverable } = tool;
  const parameters = isObject(tool.parameters) ? (snapshot(tool.parameters) as JsonObject) : tool.parameters;
  const problem = findKernelToolProblem({
    name,
    description,
    parameters,
    requires_approval,
    effect_class,
    timeout_ms,
    risk,
    category,
    deferred,
    recoverable,
  });
  if (problem !== null) throw invalid(problem);
  return {
    name,
    description,
    parameters,
    ...(requires_approval === undefined ? {} : { requires_approval }),
    ...(effect_class === undefined ? {} : { effect_class }),
    ...(recoverable === true ? { recoverable } : {}),
    ...(timeout_ms === undefined ? {} : { timeout_ms }),
    ...(risk === undefined ? {} : { risk }),
    ...(category === undefined ? {} : { category }),
    ...(deferred === true ? { deferred } : {}),
  };
}

function truncateBrief(text: string): string {
  return text.length > TOOL_BRIEF_LENGTH ? `${text.slice(0, TOOL_BRIEF_LENGTH - 1)}…` : text;
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("plugin.invalid", message, {
    fix: "Correct the tool that the plugin registers.",
  });
}
