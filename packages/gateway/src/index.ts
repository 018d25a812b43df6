export type { BackupManifest } from "./backup/archive.ts";
export { type Backup, type BackupOptions, createBackup } from "./backup/create-backup.ts";
export {
  type RestoreOptions,
  type RestoreResult,
  restoreBackup,
  resumeRestore,
} from "./backup/restore-backup.ts";
export {
  type ConfigFlags,
  type ConfigSources,
  type GatewayConfig,
  homeFolder,
  loadConfig,
} from "./config/config.ts";
export type { DoctorCheck } from "./doctor/check.ts";
export { type ContentOptions, checkContent } from "./doctor/check-content.ts";
export { checkSystem } from "./doctor/check-system.ts";
export { type DaemonState, prepareHome, readDaemon } from "./home/home.ts";
export { VERSION } from "./host/version.ts";
export { type Gateway, startGateway } from "./start/start-gateway.ts";
export { type StoreFiles, storeFiles } from "./store/store-files.ts";
