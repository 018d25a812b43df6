/**
 * A real PostgreSQL for tests: the one that BACKPLANE_TEST_PG_URL names, otherwise a separate cluster in a temporary
 * folder, reached over a Unix socket. Each call gets an empty database. The server ends with the process that
 * started it, however that process ends: its guard waits on a pipe that only that process holds open.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { chmod, chown, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import pg from "pg";

export interface TestPostgres {
  url: string;
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root; `nobody` has this number on Linux. */
const NOBODY = 65_534;
const GUARD = '"$@" & server=$!; read _ <&3; kill -INT $server; wait $server';

type Owner = { uid: number; gid: number } | { uid?: undefined };

export async function startPostgres(): Promise<TestPostgres> {
  const configured_url = process.env.BACKPLANE_TEST_PG_URL;
  return configured_url === undefined ? startCluster() : createDatabase(configured_url);
}

async function startCluster(): Promise<TestPostgres> {
  const bin = findBinaries();
  const dir = createMemoryFolder("bp-pg-");
  const owner: Owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  await chmod(dir, 0o700);
  if (owner.uid !== undefined) await chown(dir, owner.uid, owner.gid);
  const data = join(dir, "data");
  const env = { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" };
  template ??= createTemplate(bin, owner, env);
  await promisify(execFile)("/bin/cp", ["-a", await template, data]);
  const settings = [
    "listen_addresses=",
    `unix_socket_directories=${dir}`,
    "fsync=off",
    "full_page_writes=off",
  ];
  settings.push("max_connections=80", "shared_buffers=32MB", "deadlock_timeout=100ms");
  const server = spawn(
    "/bin/sh",
    [
      "-c",
      GUARD,
      "guard",
      join(bin, "postgres"),
      "-D",
      data,
      ...settings.flatMap((setting) => ["-c", setting]),
    ],
    { ...owner, env, cwd: dir, stdio: ["ignore", "ignore", "pipe", "pipe"] },
  );
  await waitUntilReady(server);
  return {
    url: `postgresql://backplane@localhost/postgres?host=${encodeURIComponent(dir)}`,
    async stop() {
      const exited = server.exitCode === null ? once(server, "exit") : undefined;
      (server.stdio[3] as NodeJS.WritableStream).end();
      await exited;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The files of an empty server, created once for each test process because initdb takes longer than a test. */
let template: Promise<string> | undefined;

async function createTemplate(bin: string, owner: Owner, env: NodeJS.ProcessEnv): Promise<string> {
  const dir = createMemoryFolder("bp-pg-template-");
  process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
  if (owner.uid !== undefined) await chown(dir, owner.uid, owner.gid);
  const data = join(dir, "data");
  await promisify(execFile)(
    join(bin, "initdb"),
    ["-D", data, "-U", "backplane", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    { ...owner, env, cwd: dir },
  );
  return data;
}

async function waitUntilReady(server: ChildProcess): Promise<void> {
  const output: string[] = [];
  const lines = createInterface({ input: server.stderr! });
  await new Promise<void>((resolve, reject) => {
    lines.on("line", (line) => {
      if (output.length < 50) output.push(line);
      if (line.includes("ready to accept connections")) resolve();
    });
    server.once("exit", () => reject(new Error(`PostgreSQL did not start:\n${output.join("\n")}`)));
    server.once("error", reject);
  });
}

function findBinaries(): string {
  const path_folders = (process.env.PATH ?? "").split(delimiter);
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  for (const dir of [...versions.map((version) => join(root, version, "bin")), ...path_folders]) {
    if (existsSync(join(dir, "initdb")) && existsSync(join(dir, "postgres"))) return dir;
  }
  throw new Error(
    "These tests need a real PostgreSQL. Run `apt-get install -y postgresql` (npm run prepare-system does it as root), or set BACKPLANE_TEST_PG_URL.",
  );
}

async function createDatabase(server: string): Promise<TestPostgres> {
  const name = `bp_test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  await execute(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, stop: () => execute(server, `drop database ${name} with (force)`) };
}

async function execute(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
