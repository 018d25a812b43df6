/**
 * `backplane doctor`: checks the requirements of the gateway on this machine. Most problems are reported with a fix,
 * which is a command where possible.
 */
import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { codeOf } from "@backplane/contract";
import { readDatabaseSummary, readStoreSchemaVersion, readStoreSize } from "@backplane/store";
import type { GatewayConfig } from "../config/config.ts";
import { assertSafeListen } from "../config/listen.ts";
import { readDaemon } from "../home/home.ts";
import { findHomeProblems, type HomeProblem } from "../home/home-access.ts";
import { readLastBackup } from "../home/last-backup.ts";
import { VERSION } from "../host/version.ts";
import { storeFiles } from "../store/store-files.ts";
import type { DoctorCheck } from "./check.ts";
import { checkPython } from "./check-python.ts";
import { checkSandbox } from "./check-sandbox.ts";

const MAX_SHOWN = 5;
const LOW_DISK_BYTES = 256 * 1024 * 1024;

export async function checkSystem(config: GatewayConfig): Promise<DoctorCheck[]> {
  return [
    { name: "version", status: "ok", message: `Backplane ${VERSION}` },
    checkNode(),
    checkShell(),
    checkHome(config),
    checkDisk(config),
    await checkStore(config),
    checkBackup(config),
    checkListen(config),
    await checkSandbox(config),
    await checkPython(),
    await checkGateway(config),
  ];
}

function checkNode(): DoctorCheck {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const supported = major > 24 || (major === 24 && minor >= 15);
  if (supported) return { name: "node", status: "ok", message: `Node ${process.versions.node}` };
  return {
    name: "node",
    status: "failed",
    message: `Node ${process.versions.node} is older than 24.15`,
    fix: "npm ci",
  };
}

function checkShell(): DoctorCheck {
  if (existsSync("/bin/sh"))
    return { name: "watchdog", status: "ok", message: "plugins are stopped when the gateway exits" };
  return {
    name: "watchdog",
    status: "degraded",
    message:
      "/bin/sh is missing: plugins that ignore the end of their input keep running after the gateway is killed",
    fix: "install a POSIX shell at /bin/sh",
  };
}

function checkHome(config: GatewayConfig): DoctorCheck {
  try {
    if (!existsSync(config.home))
      return { name: "home", status: "ok", message: `${config.home} will be created at the first start` };
    accessSync(config.home, constants.R_OK | constants.W_OK | constants.X_OK);
    const problems = [...findHomeProblems(config.home), ...findReadableCredentials(config)];
    if (problems.length === 0) return { name: "home", status: "ok", message: config.home };
    const listed = problems.slice(0, MAX_SHOWN);
    const more = problems.length - listed.length;
    return {
      name: "home",
      status: problems.some(({ action }) => action !== "warn") ? "failed" : "degraded",
      message: listed.map(({ message }) => message).join("; ") + (more === 0 ? "" : `; and ${more} more`),
      fix: listed.map(({ fix }) => fix).join(" && "),
    };
  } catch {
    return {
      name: "home",
      status: "failed",
      message: `${config.home} is not accessible`,
      fix: `chown -R "$USER" ${config.home}`,
    };
  }
}

/** The gateway does not start with credentials that others can read, because other users may have read them. */
function findReadableCredentials(config: GatewayConfig): Pick<HomeProblem, "message" | "fix" | "action">[] {
  return [join(config.home, "admin.token"), config.secret_key_file]
    .filter((file) => existsSync(file) && (statSync(file).mode & 0o077) !== 0)
    .map((file) => ({
      message: `${file} can be read by others`,
      fix: `chmod 600 ${file}`,
      action: "refuse",
    }));
}

function checkDisk(config: GatewayConfig): DoctorCheck {
  try {
    const stats = statfsSync(existsSync(config.home) ? config.home : "/");
    const free = stats.bavail * stats.bsize;
    const message = `${Math.round(free / 1024 / 1024)} MiB free`;
    if (free > LOW_DISK_BYTES) return { name: "disk", status: "ok", message };
    return {
      name: "disk",
      status: "degraded",
      message,
      fix: `free some space on the disk of ${config.home}`,
    };
  } catch {
    return { name: "disk", status: "degraded", message: "the free space cannot be determined" };
  }
}

/** A larger store is not checked, because that would take too long. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024;

async function checkDatabase(url: string): Promise<DoctorCheck> {
  try {
    const { page_checksums, schema_version, bytes } = await readDatabaseSummary(url);
    const kind = `PostgreSQL, schema ${schema_version}, ${bytes} bytes`;
    if (page_checksums)
      return { name: "store", status: "ok", message: `${kind}; it checks its pages (data_checksums on)` };
    return {
      name: "store",
      status: "degraded",
      message: `${kind}; it does not check its pages (data_checksums off): damage on its disk goes unnoticed`,
      fix: "stop PostgreSQL, then: pg_checksums --enable -D DATA_FOLDER",
    };
  } catch (error) {
    const { cause } = error as Error;
    return {
      name: "store",
      status: "failed",
      message: `the PostgreSQL database cannot be read: ${cause instanceof Error ? cause.message : (error as Error).message}`,
      fix: "start the database, or correct store.url in backplane.toml",
    };
  }
}

async function checkStore(config: GatewayConfig): Promise<DoctorCheck> {
  if (config.store.url !== undefined) return await checkDatabase(config.store.url);
  const file = `${config.home}/store.db`;
  const bytes = existsSync(file) ? readStoreSize(file) : undefined;
  if ((bytes ?? 0) > MAX_CHECKED_BYTES) {
    const message = `not checked, because its size is ${Math.round(bytes! / 1024 / 1024)} MiB`;
    return { name: "store", status: "degraded", message, fix: "backplane store check" };
  }
  const report = existsSync(config.home) ? storeFiles(config).check() : null;
  if (report === null || (bytes === undefined && report.structure.length === 0))
    return { name: "store", status: "ok", message: "will be created at the first start" };
  const { structure, rows, lost_commits } = report;
  if (structure.length + rows.length + lost_commits === 0)
    return {
      name: "store",
      status: "ok",
      message: `SQLite, schema ${readStoreSchemaVersion(file)}, intact, every row's checksum matches (${report.bytes} bytes)`,
    };
  const parts = [
    ...(lost_commits === 0 ? [] : [`${lost_commits} acknowledged commits are missing`]),
    ...structure,
    ...rows.map(({ table, id }) => `the row ${id} of the table ${table} is damaged`),
  ];
  const more = parts.length > 3 ? `; and ${parts.length - 3} more` : "";
  return {
    name: "store",
    status: "failed",
    message: `${parts.slice(0, 3).join("; ")}${more}`,
    fix: report.fix,
  };
}

/** The status is always ok: a new home has nothing to lose yet, so a missing backup is only reported. */
function checkBackup({ home }: GatewayConfig): DoctorCheck {
  const last = readLastBackup(home);
  const message =
    last === null
      ? "none yet; create one with: backplane backup"
      : `${last.at}, ${last.file} (${last.bytes} bytes)`;
  return { name: "backup", status: "ok", message };
}

function checkListen(config: GatewayConfig): DoctorCheck {
  try {
    assertSafeListen(config.listen);
    return { name: "listen", status: "ok", message: `${config.listen.host}:${config.listen.port}` };
  } catch (error) {
    const fix = (error as { fix?: string }).fix;
    return {
      name: "listen",
      status: "failed",
      message: `${(error as Error).message} (${codeOf(error)})`,
      ...(fix === undefined ? {} : { fix }),
    };
  }
}

async function checkGateway(config: GatewayConfig): Promise<DoctorCheck> {
  const daemon = readDaemon(config.home);
  if (daemon === null)
    return { name: "gateway", status: "degraded", message: "not running", fix: "backplane up" };
  const reachable = await canConnect(new URL(daemon.url));
  if (!reachable) {
    return {
      name: "gateway",
      status: "failed",
      message: `process ${daemon.pid} does not respond at ${daemon.url}`,
      fix: "backplane down --force && backplane up",
    };
  }
  if (daemon.version !== VERSION) {
    return {
      name: "gateway",
      status: "degraded",
      message: `runs version ${daemon.version}, but this program is version ${VERSION}`,
      fix: "backplane down && backplane up",
    };
  }
  return { name: "gateway", status: "ok", message: `${daemon.url} (pid ${daemon.pid})` };
}

function canConnect(url: URL): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = createConnection({ host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port) });
  const finish = (connected: boolean) => {
    socket.destroy();
    resolve(connected);
  };
  socket.setTimeout(2_000, () => finish(false));
  socket.once("connect", () => finish(true));
  socket.once("error", () => finish(false));
  return promise;
}
