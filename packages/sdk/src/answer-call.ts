/** One wire request → the author's function → one terminal reply. Never rejects. */
import { type JsonObject, OPS } from "@backplane/contract";
import type { VaiCall } from "@backplane/wire";
import { LiveCall } from "./call.ts";
import type { CompactRequest, HarnessRequest, HookEvent } from "./contracts.ts";
import type { ExportDefinition, Plugin } from "./define.ts";
import { failureReply, outcomeOf, type Reply, replyToThrow, toToolAnswer } from "./outcome.ts";

export function answerWith(plugin: Plugin, log: (line: string) => void): (call: VaiCall) => Promise<Reply> {
  const exportsById = new Map(plugin.exports.map((entry) => [entry.id, entry]));
  return async (wire) => {
    const entry = exportsById.get(wire.body.export_id);
    if (entry === undefined || OPS[entry.kind] !== wire.op) return notExported(plugin, wire);
    const call = new LiveCall(wire, log);
    try {
      return await dispatch(entry, wire.body, call);
    } catch (error) {
      const reply = replyToThrow(error, call.cancelled);
      // The reply carries one sentence; where the author's code broke is for the log.
      if (reply.status === "failed" && error instanceof Error && outcomeOf(error) === undefined)
        call.log(error.stack);
      return reply;
    } finally {
      call.end();
    }
  };
}

async function dispatch(entry: ExportDefinition, body: VaiCall["body"], call: LiveCall): Promise<Reply> {
  switch (entry.kind) {
    case "tool": {
      const { input = {} } = body as unknown as JsonObject;
      const value = await entry.run(input, call);
      const answer = toToolAnswer(value, entry.output !== undefined);
      return { status: statusOf(answer), result: answer };
    }
    case "hook": {
      const event = body.event as unknown as HookEvent;
      if (!entry.on.includes(event.type)) {
        return failureReply("failed", `The hook ${entry.id} does not subscribe to ${event.type}.`);
      }
      await entry.handle(event, call);
      return { status: "ack" };
    }
    case "compactor":
      return {
        status: "succeeded",
        result: await entry.compact(bodyOf(body) as unknown as CompactRequest, call),
      };
    case "harness": {
      const answer = await entry.run(bodyOf(body) as unknown as HarnessRequest, call);
      const result = typeof answer === "string" ? { summary: { text: answer } } : answer;
      return { status: "succeeded", result: { artifacts: [], ...result } };
    }
  }
}

/** A tool may say in its own words that it failed; the status has to agree. */
function statusOf(answer: { is_error?: boolean; retryable?: boolean }): Reply["status"] {
  if (answer.is_error !== true) return "succeeded";
  return answer.retryable === true ? "retryable_failure" : "failed";
}

function bodyOf(body: VaiCall["body"]): JsonObject {
  const { export_id: _export, context: _context, ...rest } = body as unknown as JsonObject;
  return rest;
}

function notExported(plugin: Plugin, wire: VaiCall): Reply {
  const list = plugin.exports.map((entry) => `${entry.kind} ${entry.id}`).join(", ");
  return failureReply(
    "failed",
    `${plugin.package_id} ${plugin.version} has no export ${wire.body.export_id} for ${wire.op}. It has: ${list}.`,
  );
}
