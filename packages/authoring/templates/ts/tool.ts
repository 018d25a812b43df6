import { definePlugin, fail, serve, tool } from "../lib/backplane-sdk.mjs";

const wordCount = tool({
  id: "__EXPORT_ID__",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  output: { type: "object", properties: { words: { type: "integer" } }, required: ["words"] },
  run(input, call) {
    const words = input.text.split(/\s+/).filter((word) => word !== "");
    if (words.length === 0) fail("There is no text to count.");
    call.progress(`counted ${words.length} words`);
    return { words: words.length };
  },
});

serve(definePlugin({ package_id: "__PACKAGE_ID__", version: "0.1.0", exports: [wordCount] }));
