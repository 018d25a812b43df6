/** Offers pins as one tool (compactor.pins). The plugin holds the grant for `pin.*` and nothing else. */
import { defineKernelPlugin } from "@backplane/sdk/kernel";
import { pinTool } from "./pin-tool.ts";

export const plugin = defineKernelPlugin({
  name: "pin-tool",
  version: "0.1.0",
  category: "tool",
  prefixes: ["pin"],
  subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool(pinTool(ctx)),
});
