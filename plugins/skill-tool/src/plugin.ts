/** Offers skills as one tool (bridge.agent-plugins). The plugin holds the grant for `skill.*` and nothing else. */
import { defineKernelPlugin } from "@backplane/sdk/kernel";
import { skillTool } from "./skill-tool.ts";

export const plugin = defineKernelPlugin({
  name: "skill-tool",
  version: "0.1.0",
  category: "tool",
  prefixes: ["skill"],
  subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool(skillTool(ctx)),
});
