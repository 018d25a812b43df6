/** Offers skills as one tool (bridge.agent-plugins). Of the kernel services, the plugin may use only `skill.*`. */
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
