/** Sub-agents as one tool (subagent.tool). Of the kernel services, the plugin may use only `subagent.*`. */
import { defineKernelPlugin } from "@backplane/sdk/kernel";
import { agentTool } from "./agent-tool.ts";

export const plugin = defineKernelPlugin({
  name: "agent-tool",
  version: "0.1.0",
  category: "tool",
  prefixes: ["agent"],
  subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool(agentTool(ctx)),
});
