// These types belong to the tool format. They can always be imported, and the import loads no code.
import type { ToolContext, ToolExecutionResult } from "@vellumai/plugin-api";
import { countWords } from "../count-words";

export default {
  description: "Count the words of each paragraph of a text.",
  defaultRiskLevel: "low" as const,
  category: "text",
  input_schema: {
    type: "object",
    properties: { text: { type: "string", description: "The text to count." } },
    required: ["text"],
    additionalProperties: false,
  },
  async execute(input: { text: string }, ctx: ToolContext): Promise<ToolExecutionResult> {
    let total = 0;
    for (const [index, paragraph] of input.text.split(/\n{2,}/).entries()) {
      if (ctx.signal?.aborted) return { content: "stopped", isError: true };
      const words = countWords(paragraph);
      ctx.onOutput?.(`paragraph ${index + 1}: ${words}\n`);
      total += words;
    }
    return { content: `${total} words`, isError: false };
  },
};
