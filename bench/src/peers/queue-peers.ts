/**
 * Published job queues that do the work of a delivery: each job calls a plugin over a raw pipe and writes one row in
 * the queue's own database. The plugin is the smallest that answers vai.rpc.v1, which favors the peers.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stopChild } from "../processes/server-process.ts";
import { type EchoConnection, rawVai } from "./echo-peer.ts";

export interface QueuePeer {
  key: string;
  /** Enqueues `count` jobs in one write and waits until all of them are complete. */
  run(count: number): Promise<void>;
  close(): Promise<void>;
}

const TEXT = "x".repeat(200);
/** The maximum number of attempts per job. Every job succeeds at its first attempt. */
const ATTEMPTS = 5;
/** PostgreSQL refuses to run as root; `nobody` has this number on Linux. */
const NOBODY = 65_534;
const READY_TIMEOUT_MS = 30_000;

/** Skips a peer whose server is not installed, with a message. */
export async function openQueuePeers(in_flight: number): Promise<QueuePeer[]> {
  const peers: QueuePeer[] = [];
  if (spawnSync("redis-server", ["--version"]).status === 0) {
    peers.push(await openBullMq("everysec", in_flight), await openBullMq("always", in_flight));
  } else {
    console.error(
      "hooks: BullMQ is skipped, because redis-server is not installed (apt-get install redis-server).",
    );
  }
  const binaries = findPostgres();
  if (binaries !== null) peers.push(await openGraphileWorker(binaries, in_flight));
  else {
    console.error(
      "hooks: graphile-worker is skipped, because PostgreSQL is not installed (apt-get install postgresql).",
    );
  }
  return peers;
}

/** Resolves a promise when as many jobs have completed as the current run enqueued. */
class Countdown {
  #remaining = 0;
  #done = () => {};

  begin(count: number): Promise<void> {
    this.#remaining = count;
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  count(): void {
    if (--this.#remaining === 0) this.#done();
  }
}

async function openBullMq(fsync: "everysec" | "always", in_flight: number): Promise<QueuePeer> {
  const { Queue, Worker } = await import("bullmq");
  const { Redis } = await import("ioredis");
  const folder = mkdtempSync(join(tmpdir(), "backplane-redis-"));
  const socket = join(folder, "redis.sock");
  const settings = {
    port: "0",
    unixsocket: socket,
    dir: folder,
    save: "",
    appendonly: "yes",
    appendfsync: fsync,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const server = spawn("redis-server", args, { stdio: "ignore" });
  await waitUntil(() => existsSync(socket), server);
  const plugin = await rawVai.open();
  const connection = { path: socket, maxRetriesPerRequest: null };
  const rows = new Redis(connection);
  const queue = new Queue("deliveries", { connection });
  const countdown = new Countdown();
  const handle = async (job: { id: string }) => {
    await rows.hset(`row:${job.id}`, "status", "succeeded", "output", await plugin.call(TEXT));
  };
  const worker = new Worker("deliveries", handle, { connection, concurrency: in_flight });
  worker.on("completed", () => countdown.count());
  await worker.waitUntilReady();
  return {
    key: `bullmq-${fsync}`,
    async run(count) {
      const done = countdown.begin(count);
      const opts = { attempts: ATTEMPTS, backoff: { type: "exponential", delay: 1_000 } };
      await queue.addBulk(
        Array.from({ length: count }, () => ({ name: "note", data: { text: TEXT }, opts })),
      );
      await done;
    },
    async close() {
      await worker.close();
      await queue.close();
      rows.disconnect();
      await plugin.close();
      await stopChild(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function openGraphileWorker(binaries: string, in_flight: number): Promise<QueuePeer> {
  const { run } = await import("graphile-worker");
  const { Pool } = await import("pg");
  const folder = mkdtempSync(join(tmpdir(), "backplane-pg-"));
  const server = await startPostgres(binaries, folder);
  const pool = new Pool({ host: folder, user: "bench", database: "postgres", max: in_flight + 4 });
  // When the server stops, it closes the idle connections of the pool.
  pool.on("error", () => {});
  await pool.query(
    "create table results (id bigserial primary key, status text not null, output text not null)",
  );
  const plugin: EchoConnection = await rawVai.open();
  const countdown = new Countdown();
  const note = async (
    _payload: unknown,
    helpers: { query(text: string, values: unknown[]): Promise<unknown> },
  ) => {
    const output = await plugin.call(TEXT);
    await helpers.query("insert into results (status, output) values ('succeeded', $1)", [output]);
  };
  const silent = { log: () => () => undefined };
  const { Logger } = await import("graphile-worker");
  // The library's documentation recommends both settings for high throughput.
  const worker = { concurrentJobs: in_flight, localQueue: { size: 500 }, completeJobBatchDelay: 0 };
  const runner = await run({
    pgPool: pool,
    taskList: { note },
    noHandleSignals: true,
    logger: new Logger(silent.log),
    preset: { worker },
  });
  runner.events.on("job:complete", () => countdown.count());
  return {
    key: "graphile-worker",
    async run(count) {
      const done = countdown.begin(count);
      await pool.query(
        "select graphile_worker.add_job('note', json_build_object('text', $1::text), max_attempts => $2) from generate_series(1, $3)",
        [TEXT, ATTEMPTS, count],
      );
      await done;
    },
    async close() {
      await runner.stop();
      await pool.end();
      await plugin.close();
      server.kill("SIGINT");
      await stopChild(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function findPostgres(): string | null {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = versions.map((version) => join(root, version, "bin"));
  return folders.find((bin) => existsSync(join(bin, "initdb"))) ?? null;
}

/**
 * Starts PostgreSQL with its default settings, so that every commit is flushed to the disk. The server listens only on a
 * Unix socket in the folder.
 */
async function startPostgres(binaries: string, folder: string): Promise<ChildProcess> {
  const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid);
  const data = join(folder, "data");
  const initial = ["-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale"];
  execFileSync(join(binaries, "initdb"), initial, { ...owner, cwd: folder, stdio: "ignore" });
  const args = ["-D", data, "-c", "listen_addresses=", "-c", `unix_socket_directories=${folder}`];
  const server = spawn(join(binaries, "postgres"), args, { ...owner, cwd: folder, stdio: "ignore" });
  const isReady = () => spawnSync(join(binaries, "pg_isready"), ["-h", folder, "-q"]).status === 0;
  await waitUntil(isReady, server);
  return server;
}

async function waitUntil(isReady: () => boolean, server: ChildProcess): Promise<void> {
  const end = performance.now() + READY_TIMEOUT_MS;
  while (!isReady()) {
    if (server.exitCode !== null || performance.now() > end)
      throw new Error(`${server.spawnfile} did not start`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
