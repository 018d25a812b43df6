/** A plugin that repeats its secret in all its output: no copy reaches a record, a log or a response. */
import { expect } from "vitest";
import { CANARY, type SearchReport, searchText } from "../support/gateway/canary.ts";
import { startTestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

/** Repeats the secret in the result, in events, on stderr and in an error; raw, as JSON, base64 and URL-encoded. */
const LEAKS = `async (call) => {
  const { canary } = call.body.context.secrets;
  const copies = [canary, JSON.stringify(canary), Buffer.from(canary).toString("base64"), encodeURIComponent(canary)];
  console.error(copies.join("\\n"));
  call.emit({ type: "progress", message: copies.join(" "), data: { canary } });
  if (call.body.input.fails) throw new Error(copies.join(" "));
  return { status: "succeeded", result: { content: copies.map((text) => ({ type: "text", text })), structured_output: { length: canary.length } } };
}`;

verifies("secret.slots", "stores no copy of a secret that a plugin repeats in all its output", async () => {
  const gateway = await startTestGateway();
  try {
    const folder = writePluginFolder({
      package_id: "acme/leaks",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: { "bin/plugin.mjs": vaiProgram("acme/leaks", LEAKS) },
      exports: [{ id: "leaks" }],
    });
    await installAndBind(gateway, folder, ["leaks"], { class: "isolated" });
    const call = async (input: object) =>
      (
        await gateway.http<{ id: string; status: string; result: { structured_output: { length: number } } }>(
          "POST",
          "/v1/invocations?wait=30",
          { export_id: "leaks", input },
        )
      ).body;
    const succeeded = await call({});
    // The plugin received the value.
    expect(succeeded.result.structured_output).toEqual({ length: CANARY.length });
    const failed = await call({ fails: true });
    expect(failed.status).toBe("failed");
    for (const { id } of [succeeded, failed]) {
      for (const command of [["show"], ["events"]]) {
        expect((await gateway.cli("invocation", ...command, id)).stdout).toContain("redacted");
      }
    }
  } finally {
    // dispose searches the home, the log, the responses and the output.
    await gateway.dispose();
  }
  const proof: SearchReport = { places: 0, bytes: 0, hits: [] };
  for (const text of [CANARY, JSON.stringify(CANARY), Buffer.from(`x:${CANARY}`).toString("base64")]) {
    searchText("a copy", text, proof);
  }
  searchText("a copy", encodeURIComponent(CANARY), proof);
  expect(proof.hits).toHaveLength(4);
});
