/**
 * Collects the parts of a sandbox on this machine, one check after the other. Throws with a fix at the first
 * required part that is missing.
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { BackplaneError } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import { startJanitor } from "../cgroup/janitor.ts";
import { openCgroups } from "../cgroup/open-cgroups.ts";
import { PrivateCopies } from "../programs/private-copies.ts";
import { readSystem, writeOwnFiles } from "./host-files.ts";
import { readInit } from "./init-program.ts";
import { DEFAULT_SANDBOX_LIMITS, type PackageLimits, type SandboxLimits } from "./limits.ts";
import type { SandboxHost } from "./plan.ts";
import { PreparedSlots } from "./prepared-slots.ts";
import { filteredArch, systemCallFilter } from "./seccomp/filter.ts";
import { SlotTable } from "./slot-table.ts";
import type { SandboxTools } from "./spawn-confined.ts";
import type { SandboxCheck } from "./status.ts";

export interface SandboxOptions {
  /** A folder for private copies of sandbox-init and of a few small files. */
  cache_dir: string;
  node: string;
  path: readonly string[];
  limits?: Partial<SandboxLimits>;
  package_limits?: PackageLimits;
  log: Logger;
  /** Where to look for bwrap, if the embedded sandbox cannot be used. */
  bwrap?: readonly string[];
  /** The folder of sandbox-init and its manifest, if not that of this package. */
  init?: string;
}

/** The program that creates the sandboxes: sandbox-init itself, or the system's bwrap at this path. */
export type SandboxBackend = { name: "embedded" } | { name: "bubblewrap"; program: string };

export interface SandboxParts {
  host: SandboxHost;
  /** Returns the same object for every launch of a package. */
  getLimits(package_id: string | undefined): SandboxLimits;
  tools: SandboxTools;
  slots: SlotTable;
  prepared: PreparedSlots;
  /** Existing processes; closing the sandbox kills them. */
  live: Set<{ kill(): void; exitCause: Promise<unknown> }>;
}

const BWRAP = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
export const EMBEDDED: SandboxBackend = { name: "embedded" };
/** Outside the usual ranges for users, services and containers, and below 65,536 for small user namespaces. */
const FIRST_UID = 59_000;

/** Null for root: bwrap can only add the permission to create user namespaces, which root does not need. */
export function findBubblewrap(options: SandboxOptions): SandboxBackend | null {
  const program = (options.bwrap ?? BWRAP).find((file) => existsSync(file));
  return program === undefined || process.getuid?.() === 0 ? null : { name: "bubblewrap", program };
}

export async function openSandboxParts(
  options: SandboxOptions,
  backend: SandboxBackend,
  checks: SandboxCheck[],
  closers: (() => Promise<void>)[],
): Promise<SandboxParts> {
  const arch = filteredArch(process.arch);
  if (process.platform !== "linux" || arch === null) {
    throw sandboxError(
      `the sandbox requires Linux on x64 or arm64, and this is ${process.platform} ${process.arch}`,
      "Run the gateway on Linux, for instance in a virtual machine.",
    );
  }
  checks.push({ name: "system", ok: true, message: `Linux ${arch}` });
  const { cache_dir } = options;
  await mkdir(cache_dir, { recursive: true, mode: 0o700 });
  const { bytes, sha256 } = await readInit(options.init);
  const copies = new PrivateCopies(cache_dir);
  closers.push(async () => copies.close());
  // Executed from a folder that no slot's user can enter.
  const init = copies.put("sandbox-init", bytes, 0o555);
  const filter = copies.openUnnamed(systemCallFilter(arch));
  const version = `sandbox-init ${sha256.slice(0, 12)}`;
  checks.push({
    name: "backend",
    ok: true,
    message:
      backend.name === "embedded"
        ? `embedded ${version}`
        : `${await readVersion(backend.program)} with ${version}, because only bwrap may create user namespaces`,
  });

  const root = process.getuid?.() === 0;
  checks.push({
    name: "users",
    ok: root,
    message: root
      ? `one user per process from ${FIRST_UID} on`
      : "every plugin runs as the gateway's own user",
    ...(root ? {} : { fix: "Run the gateway as root to give each plugin its own user." }),
  });
  const { cgroups, summary } = await openCgroups(`backplane-${process.pid}-${randomUUID().slice(0, 8)}`);
  checks.push({
    name: "cgroups",
    ok: cgroups !== null,
    message: cgroups === null ? `no cgroups: ${summary}` : summary,
    ...(cgroups === null ? { fix: "Run the gateway as root with a writable cgroup tree." } : {}),
  });
  const limits = { ...DEFAULT_SANDBOX_LIMITS, ...options.limits };
  if (cgroups !== null) {
    const janitor = startJanitor(cgroups.folders);
    closers.push(
      () => janitor.close(),
      () => cgroups.close(),
    );
  }
  const slots = new SlotTable(cgroups, limits);
  const bwrap = backend.name === "bubblewrap" ? backend.program : null;
  const tools = { init, bwrap, filter, copies };
  const prepared = new PreparedSlots(slots, limits, tools, ({ index, cgroup }) => {
    if (bwrap !== null) return null;
    const [uid, gid] = root ? [FIRST_UID + index, FIRST_UID + index] : [process.getuid!(), process.getgid!()];
    return { uid, gid, init, join_files: cgroup?.join_files ?? [] };
  });
  const package_limits = new Map(
    Object.entries(options.package_limits ?? {}).map(([id, overrides]) => [id, { ...limits, ...overrides }]),
  );
  const live: SandboxParts["live"] = new Set();
  closers.push(
    () => slots.close(),
    () => prepared.close(),
    async () => {
      for (const process of live) process.kill();
      await Promise.all(Array.from(live, ({ exitCause }) => exitCause));
    },
  );
  return {
    tools,
    slots,
    prepared,
    live,
    getLimits: (package_id) => package_limits.get(package_id ?? "") ?? limits,
    host: {
      ...(await readSystem()),
      files: writeOwnFiles(copies),
      node: await realpath(options.node),
      path: options.path,
      limits,
      first_uid: root ? FIRST_UID : null,
      cgroup: cgroups !== null,
    },
  };
}

function readVersion(bwrap: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(bwrap, ["--version"], { env: {}, cwd: "/" }, (error, stdout) => {
      if (error === null) resolve(stdout.trim());
      else reject(sandboxError(`${bwrap} does not start`, "apt-get install --reinstall -y bubblewrap"));
    });
  });
}

export function sandboxError(message: string, fix: string): BackplaneError {
  return new BackplaneError("sandbox.unavailable", message, { fix });
}
