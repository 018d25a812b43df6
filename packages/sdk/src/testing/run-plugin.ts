/** Runs a plugin in memory: real frames over a real peer, without a process. */
import { memoryTransportPair, VaiPlugin } from "@backplane/wire";
import { createCallHandler } from "../answer-call.ts";
import type { Plugin } from "../define.ts";
import { connectPlugin, type PluginRun } from "./plugin-run.ts";

export interface MemoryRun extends PluginRun {
  /** The lines that `call.log` wrote. */
  readonly logs: readonly string[];
}

export async function runPlugin(plugin: Plugin): Promise<MemoryRun> {
  const [hostSide, pluginSide] = memoryTransportPair();
  const logs: string[] = [];
  const peer = new VaiPlugin({
    transport: pluginSide,
    identity: { package_id: plugin.package_id, version: plugin.version },
    handle: createCallHandler(plugin, (line) => logs.push(line)),
    onShutdown: () => pluginSide.close(),
    onFailure: () => pluginSide.close(),
  });
  peer.start();
  return Object.assign(await connectPlugin(hostSide, plugin), { logs });
}
