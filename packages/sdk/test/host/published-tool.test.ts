/** The tool file of the published guide, byte for byte. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { startToolHost } from "./tool-host.ts";

const EXAMPLE = readFileSync(
  new URL("../../../../test/fixtures/published/example-tool.txt", import.meta.url),
  "utf8",
);

test("runs the published tools/example.ts", async () => {
  const host = await startToolHost({ "tools/example.ts": EXAMPLE });
  expect((await host.describe()).tools).toMatchObject([
    {
      name: "example",
      risk: "low",
      category: null,
      target: "sandbox",
      load_error: null,
      input_schema: { required: ["query"], properties: { query: { description: "Text to search for." } } },
    },
  ]);
  const outcome = await host.call("example", { query: " tea " }, { session_id: "sess_1" });
  expect(outcome.result).toMatchObject({
    content: [{ type: "text", text: "searched sess_1 for tea" }],
    is_error: false,
  });
  const empty = await host.call("example", { query: "" });
  expect(empty.result).toMatchObject({
    content: [{ type: "text", text: "error: query must be non-empty" }],
    is_error: true,
  });
});
