import { definePlugin, fail, harness, serve } from "../lib/backplane-sdk.mjs";

/**
 * Works through the lines of the message. After a crash or `run resume` it continues from the last checkpoint. To let
 * the agent work on a line, request the scope runs:write in the manifest and call
 * `await call.run("line-1", { session_id, input: { text: line } })`.
 */
const checklist = harness({
  id: "__EXPORT_ID__",
  run(request, call) {
    const blocks = request.trigger.input ?? [];
    const lines = blocks
      .flatMap(({ text }) => (typeof text === "string" ? text.split("\n") : []))
      .filter((line) => line.trim() !== "");
    if (lines.length === 0) fail("There is nothing to do.");
    let { done } = (request.checkpoint?.data ?? { done: 0 }) as { done: number };
    for (const line of lines.slice(done)) {
      done++;
      call.progress(`line ${done} of ${lines.length}: ${line}`);
      call.checkpoint({ done });
    }
    return {
      summary: { text: `${done} lines done.` },
      checkpoint: { kind: "checkpoint", data: { done } },
    };
  },
});

serve(definePlugin({ package_id: "__PACKAGE_ID__", version: "0.1.0", exports: [checklist] }));
