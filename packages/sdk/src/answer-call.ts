/**
 * Runs the author's function for one wire request and returns one terminal reply. Never throws or rejects. A
 * synchronous result is answered synchronously, because a promise would cost more than the rest of a small
 * call.
 */
import { type JsonObject, OPS } from "@backplane/contract";
import type { VaiCall } from "@backplane/wire";
import { withLargeInput } from "./artifact.ts";
import { ServedCall } from "./call.ts";
import type { CompactRequest, HarnessAnswer, HarnessRequest, HookEvent } from "./contracts.ts";
import type { ExportDefinition, Plugin } from "./define.ts";
import { fail, failureReply, type Reply, replyToThrow, statusOfError, toToolAnswer } from "./outcome.ts";

export function createCallHandler(
  plugin: Plugin,
  log: (line: string) => void,
): (call: VaiCall) => Reply | Promise<Reply> {
  const exportsById = new Map(plugin.exports.map((entry) => [entry.id, entry]));
  return (wire) => {
    const entry = exportsById.get(wire.body.export_id);
    if (entry === undefined || OPS[entry.kind] !== wire.op) return notExportedReply(plugin, wire);
    const call = new ServedCall(wire, log);
    let value: unknown;
    try {
      const read = withLargeInput(wire.body, call.context.scratch_dir);
      value =
        read === null
          ? callExport(entry, wire.body, call)
          : read.then((body) => callExport(entry, body, call));
      if (!isPromiseLike(value)) return end(call, toReply(entry, value));
    } catch (error) {
      return end(call, replyToError(call, error));
    }
    return answerLater(entry, call, value);
  };
}

async function answerLater(
  entry: ExportDefinition,
  call: ServedCall,
  value: PromiseLike<unknown>,
): Promise<Reply> {
  try {
    return end(call, toReply(entry, await value));
  } catch (error) {
    return end(call, replyToError(call, error));
  }
}

/** Calls the author's function, which may return a promise. */
function callExport(entry: ExportDefinition, body: VaiCall["body"], call: ServedCall): unknown {
  switch (entry.kind) {
    case "tool": {
      const { input = {} } = body as unknown as JsonObject;
      return entry.run(input, call);
    }
    case "hook": {
      const event = body.event as unknown as HookEvent;
      if (!entry.on.includes(event.type)) {
        fail(`The hook ${entry.id} does not subscribe to ${event.type}.`);
      }
      return entry.handle(event, call);
    }
    case "compactor":
      return entry.compact(requestOf(body) as unknown as CompactRequest, call);
    case "harness":
      return entry.run(requestOf(body) as unknown as HarnessRequest, call);
  }
}

function toReply(entry: ExportDefinition, value: unknown): Reply {
  switch (entry.kind) {
    case "tool": {
      const answer = toToolAnswer(value, entry.output !== undefined);
      return { status: statusOf(answer), result: answer };
    }
    case "hook":
      return { status: "ack" };
    case "compactor":
      return { status: "succeeded", result: value };
    case "harness": {
      const result = typeof value === "string" ? { summary: { text: value } } : (value as HarnessAnswer);
      return { status: "succeeded", result: { artifacts: [], ...result } };
    }
  }
}

function replyToError(call: ServedCall, error: unknown): Reply {
  const reply = replyToThrow(error, call.cancelled);
  // The reply carries one sentence; the stack trace of the author's code belongs in the log.
  if (reply.status === "failed" && error instanceof Error && statusOfError(error) === undefined)
    call.log(error.stack);
  return reply;
}

function end(call: ServedCall, reply: Reply): Reply {
  call.end();
  return reply;
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** A tool may report its own failure in its result; the status has to agree. */
function statusOf(answer: { is_error?: boolean; retryable?: boolean }): Reply["status"] {
  if (answer.is_error !== true) return "succeeded";
  return answer.retryable === true ? "retryable_failure" : "failed";
}

function requestOf(body: VaiCall["body"]): JsonObject {
  const { export_id: _export, context: _context, ...rest } = body as unknown as JsonObject;
  return rest;
}

function notExportedReply(plugin: Plugin, wire: VaiCall): Reply {
  const list = plugin.exports.map((entry) => `${entry.kind} ${entry.id}`).join(", ");
  return failureReply(
    "failed",
    `${plugin.package_id} ${plugin.version} has no export ${wire.body.export_id} for ${wire.op}. It has: ${list}.`,
  );
}
