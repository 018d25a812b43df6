/** A kernel plugin that only registers its tools. */
import type { KernelPlugin, KernelTool } from "@backplane/contract";
import { defineKernelPlugin } from "@backplane/sdk/kernel";

export function toolPlugin(name: string, ...tools: KernelTool[]): KernelPlugin {
  return defineKernelPlugin({
    name,
    version: "1.0.0",
    category: "tool",
    subscriptions: () => [],
    async onLoad(ctx) {
      for (const tool of tools) await ctx.registerTool(tool);
    },
  });
}
