/** Offers pins as one tool (compactor.pins). Of the kernel services, the plugin may use only `pin.*`. */
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
