/**
 * A gateway is killed repeatedly while it serves calls of several kinds: isolated calls with prewarmed processes, workers
 * and resident MCP servers, one export with a scratch folder and egress. Within five seconds its processes and resources
 * are gone. Only those of this gateway are counted, because other programs use the machine too.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { childrenOf } from "../../../packages/runner/src/procfs/children-of.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually, isAlive } from "../../support/gateway/processes.ts";
import { bindMcpServer } from "../../support/mcp/mcp-server.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

const KILLS = 12;
const CONCURRENT_CALLS = 6;
const SERVERS = 3;
/** Writes to its scratch folder, starts a child process and takes a while. */
const BUSY = `async ({ body }) => {
  const { spawn } = await import("node:child_process");
  const { scratch_dir } = body.context;
  if (scratch_dir) appendFileSync(scratch_dir + "/file", "x".repeat(100_000));
  spawn("/bin/sleep", ["300"], { detached: true, stdio: "ignore" });
  await new Promise((done) => setTimeout(done, 20));
  return { status: "succeeded", result: { content: [] } };
}`;
const PERMISSIONS = `[exports.permissions]
network = "egress"
allowed_domains = ["api.acme.test"]
filesystem = "scratch"`;

verifies(
  "sandbox.kill",
  "a gateway that is killed under load leaves no process, mount, cgroup, descriptor or scratch folder",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-kill9-"));
    let gateway = await startTestGateway();
    const { home } = gateway;
    try {
      const exports = await bindAll(gateway, folder);
      const served_exports = new Set<string>();
      let killed_processes = 0;
      for (let kill = 0; kill < KILLS; kill++) {
        let served = 0;
        const load = Array.from({ length: CONCURRENT_CALLS }, (_, at) =>
          callRepeatedly(gateway, exports, at, (export_id) => {
            served++;
            served_exports.add(export_id);
          }),
        );
        // The first kill waits until everything runs. Each later kill waits for one more served call than the one
        // before, so that the kills hit different moments of the starts.
        await eventually(() => served > (kill === 0 ? 30 : kill), 60_000, "calls are served");
        if (kill === 0) {
          await eventually(
            () => served_exports.size === exports.length,
            60_000,
            `all of ${exports.join(", ")} are served`,
          );
        }
        const cgroups = cgroupsOf(gateway.pid);
        expect(cgroups.length).toBeGreaterThan(0);
        // SIGSTOP first, so that the gateway cannot start another child in the meantime.
        gateway.process.kill("SIGSTOP");
        const processes = descendants(gateway.pid);
        killed_processes += processes.length;
        await gateway.kill9();
        await Promise.all(load);
        const findRemains = () => ({
          processes: [...processes.filter(isStillAlive), ...membersOf(cgroups)],
          cgroups: cgroups.filter((path) => existsSync(path)),
          mounts: mountsBelow(home),
          descriptors: holdersOf(home),
          scratch: readdirSync(join(home, "scratch")),
        });
        const no_remains = { processes: [], cgroups: [], mounts: [], descriptors: [], scratch: [] };
        await eventually(
          () => JSON.stringify(findRemains()) === JSON.stringify(no_remains),
          5_000,
          "nothing is left",
        ).catch(() => expect(findRemains()).toEqual(no_remains));
        gateway = await startTestGateway({ home });
      }
      // On average, more than ten processes were running at each kill; the watchdog shells are only two of them.
      expect(killed_processes).toBeGreaterThan(KILLS * 10);
    } finally {
      await gateway.dispose();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  600_000,
);

async function bindAll(gateway: TestGateway, folder: string): Promise<string[]> {
  await gateway.cli("policy", "set", "tolerance.conversation", "full");
  const names = ["once", "again", "out"];
  for (const name of names) {
    const extra = name === "out" ? { extra: PERMISSIONS } : {};
    const plugin = writePluginFolder({
      package_id: `acme/${name}`,
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: { "bin/plugin.mjs": vaiProgram(`acme/${name}`, BUSY) },
      exports: [{ id: name, ...extra }],
    });
    const isolation = name === "again" ? "worker" : "isolated";
    const network = name === "out" ? { allowed_domains: ["api.acme.test"] } : {};
    await installAndBind(gateway, plugin, [name], { class: isolation, ...network });
    rmSync(plugin, { recursive: true, force: true });
  }
  for (let at = 0; at < SERVERS; at++) {
    await bindMcpServer(gateway, folder, `server-${at}`);
    names.push(`mcp_server-${at}_echo`);
  }
  return names;
}

/** Makes calls one after another until the gateway is killed. */
async function callRepeatedly(
  gateway: TestGateway,
  exports: string[],
  at: number,
  onServed: (export_id: string) => void,
): Promise<void> {
  for (let n = at; gateway.process.signalCode === null; n++) {
    const export_id = exports[n % exports.length]!;
    try {
      const input = export_id.startsWith("mcp_") ? { text: "x" } : {};
      const { body } = await gateway.http("POST", "/v1/invocations?wait=30", { export_id, input });
      if (body.status === "succeeded") onServed(export_id);
    } catch {
      await new Promise((done) => setTimeout(done, 5));
    }
  }
}

/** Includes the start time, because pids are reused. */
interface StartedProcess {
  pid: number;
  start: string;
}

function startTimeOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")")).split(" ")[20]!;
  } catch {
    return "";
  }
}

const isStillAlive = ({ pid, start }: StartedProcess) =>
  start !== "" && startTimeOf(pid) === start && isAlive(pid);

function descendants(pid: number): StartedProcess[] {
  return childrenOf(pid).flatMap((child) => [
    { pid: child, start: startTimeOf(child) },
    ...descendants(child),
  ]);
}

/** The folders of this gateway's cgroups, in every tree. */
function cgroupsOf(pid: number): string[] {
  const folders: string[] = [];
  const search = (folder: string, depth: number) => {
    for (const entry of listFolders(folder)) {
      if (entry.startsWith(`backplane-${pid}-`)) folders.push(join(folder, entry));
      else if (depth > 0) search(join(folder, entry), depth - 1);
    }
  };
  search("/sys/fs/cgroup", 3);
  return folders;
}

function listFolders(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

function membersOf(cgroups: readonly string[]): string[] {
  return cgroups.flatMap((folder) =>
    listFolders(folder).flatMap((slot) => {
      const file = join(folder, slot, "cgroup.procs");
      try {
        return readFileSync(file, "utf8").split("\n").filter(Boolean);
      } catch {
        return [];
      }
    }),
  );
}

function mountsBelow(home: string): string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(home));
}

/** Processes that have a file of the home open or run in it. */
function holdersOf(home: string): string[] {
  const holders: string[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const links = [`/proc/${pid}/cwd`, `/proc/${pid}/root`, `/proc/${pid}/exe`];
    try {
      links.push(...readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`));
    } catch {
      // The process exited in the meantime.
    }
    for (const link of links) {
      try {
        if (readlinkSync(link).startsWith(home)) holders.push(`${pid} ${link}`);
      } catch {
        // The process exited in the meantime.
      }
    }
  }
  return holders;
}
