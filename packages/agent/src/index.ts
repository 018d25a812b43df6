export { createAgentHost } from "./agent/agent-host.ts";
export { createAgentModule } from "./agent/agent-module.ts";
export { createFanout, type FanoutDeps, type FanoutService } from "./fanout/fanout.ts";
export { Turn } from "./loop/turn.ts";
export { createPluginSystem } from "./plugins/plugin-system.ts";
export { addressOfUrl } from "./providers/private-address.ts";
