/**
 * Runs one call to a tool file: passes the context that the format defines and converts the result
 * (tools.context). An error that the tool reports or throws is an outcome of the tool, never a protocol
 * error.
 */
import type { JsonObject } from "@backplane/contract";
import type { VaiCall, VaiReply } from "@backplane/wire";
import { failureReply, replyToThrow } from "../../outcome.ts";
import type { ToolContext, ToolExecutionResult } from "../../tool-files/index.ts";
import type { ToolFile } from "./tool-definition.ts";

/** The second argument of `execute`: the fields of the format, and the values that the operator has bound. */
interface BoundContext extends Required<ToolContext> {
  /** Values of the binding; tools written for other hosts do not expect these fields. */
  config: JsonObject;
  secrets: Record<string, string>;
}

/** A folder that the operator mounts at this path is the tool's working directory. */
const WORKSPACE = "/workspace";

export async function executeToolFile({ description, execute }: ToolFile, call: VaiCall): Promise<VaiReply> {
  if (execute === undefined) {
    return failureReply("failed", `${description.name} has no execute implementation (${description.file}).`);
  }
  const { input = {} } = call.body as unknown as JsonObject;
  try {
    return replyOf(await execute(input, contextOf(call)));
  } catch (error) {
    if (error instanceof Error && !call.signal.aborted) process.stderr.write(`${error.stack}\n`);
    return replyToThrow(error, call.signal.aborted);
  }
}

function contextOf(call: VaiCall): BoundContext {
  const { context } = call.body;
  const mounted = context.grant.mounts.some(({ target }) => target === WORKSPACE);
  return {
    conversationId: context.session_id ?? context.invocation_id,
    workingDir: mounted ? WORKSPACE : (context.scratch_dir ?? process.cwd()),
    requestId: context.run_id ?? context.trace_id,
    signal: call.signal,
    onOutput: (chunk) => call.emit({ type: "output", text: String(chunk) }),
    assistantId: context.project_id ?? context.org_id,
    isInteractive: context.interactive === true,
    config: context.config,
    secrets: context.secrets,
  };
}

function replyOf(value: unknown): VaiReply {
  const problem = findResultProblem(value);
  if (problem !== null) return failureReply("failed", `The tool's result is not valid: ${problem}.`);
  const { content, contentBlocks = [], isError, status, yieldToUser } = value as ToolExecutionResult;
  const is_error = isError === true;
  return {
    status: is_error ? "failed" : "succeeded",
    result: {
      content: [...(content === "" ? [] : [{ type: "text", text: content }]), ...contentBlocks],
      is_error,
      retryable: false,
      ...(status === undefined ? {} : { status }),
      ...(yieldToUser === true ? { yield_to_user: true } : {}),
    },
  };
}

function findResultProblem(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return "return an object with content";
  const { content, contentBlocks, isError, status, yieldToUser } = value as Record<string, unknown>;
  if (typeof content !== "string") return "content must be a string";
  for (const [name, flag] of Object.entries({ isError, yieldToUser })) {
    if (flag !== undefined && typeof flag !== "boolean") return `${name} must be true or false`;
  }
  if (status !== undefined && typeof status !== "string") return "status must be a string";
  if (contentBlocks === undefined) return null;
  const blocks =
    Array.isArray(contentBlocks) && contentBlocks.every((block) => typeof block?.type === "string");
  return blocks ? null : "contentBlocks must be a list of blocks with a type";
}
