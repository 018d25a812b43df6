import type { ToolExecutionResult } from "@vellumai/plugin-api";

const STYLES = ["plain", "formal", "short"];

/** Asks the user. yieldToUser ends the turn, so that the user can answer. */
export default {
  description: "Ask the user in which style a text should be rewritten.",
  defaultRiskLevel: "low" as const,
  category: "text",
  execute(): ToolExecutionResult {
    return {
      content: `Which style: ${STYLES.join(", ")}?`,
      isError: false,
      status: "waiting for you",
      yieldToUser: true,
    };
  },
};
