export { checkContent, type ContentOptions } from "./check-content.ts";
export { type Check, checkSystem } from "./check-system.ts";
export {
  type ConfigFlags,
  type ConfigSources,
  type GatewayConfig,
  homeFolder,
  loadConfig,
} from "./config.ts";
export { type DaemonState, prepareHome, readDaemon } from "./home.ts";
export { type Gateway, startGateway } from "./start-gateway.ts";
export { type StoreFiles, storeFiles } from "./store-files.ts";
export { VERSION } from "./version.ts";
