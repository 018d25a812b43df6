/** A plugin that tells everybody what it was given: nothing of it reaches a record, a log or an answer. */
import { expect } from "vitest";
import { CANARY, type Searched, searchText } from "../support/canary.ts";
import { startTestGateway } from "../support/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

/** In the answer, in events, on stderr, in an error; raw, as JSON, as base64 and for a URL. */
const LEAKS = `async (call) => {
  const { canary } = call.body.context.secrets;
  const spelled = [canary, JSON.stringify(canary), Buffer.from(canary).toString("base64"), encodeURIComponent(canary)];
  console.error(spelled.join("\\n"));
  call.emit({ type: "progress", message: spelled.join(" "), data: { canary } });
  if (call.body.input.fails) throw new Error(spelled.join(" "));
  return { status: "succeeded", result: { content: spelled.map((text) => ({ type: "text", text })), structured_output: { length: canary.length } } };
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
    const told = await call({});
    // It did get the value.
    expect(told.result.structured_output).toEqual({ length: CANARY.length });
    const failed = await call({ fails: true });
    expect(failed.status).toBe("failed");
    for (const { id } of [told, failed]) {
      for (const words of [["show"], ["events"]]) {
        expect((await gateway.cli("invocation", ...words, id)).stdout).toContain("redacted");
      }
    }
  } finally {
    // Here the home, the log, the answers and the output are searched.
    await gateway.dispose();
  }
  const proof: Searched = { places: 0, bytes: 0, hits: [] };
  for (const text of [CANARY, JSON.stringify(CANARY), Buffer.from(`x:${CANARY}`).toString("base64")]) {
    searchText("a copy", text, proof);
  }
  searchText("a copy", encodeURIComponent(CANARY), proof);
  expect(proof.hits).toHaveLength(4);
});
