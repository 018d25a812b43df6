/**
 * A package of 50 MB from a folder to its first call: pack, push, pull, install (with the signature and every digest
 * verified) and call, against a local docker-registry. The installation is compared with a program that downloads the
 * same layer, hashes it, decompresses it and writes its files to the disk in one stream.
 */
import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import { promisify } from "node:util";
import { createGunzip } from "node:zlib";
import { type Extract, extract } from "tar-stream";
import { startDockerRegistry } from "../../../../test/support/registries/docker-registry.ts";
import { buildEchoPackage } from "../../fixtures/echo-package.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";
import { CLI, type Server, startGateway } from "../../processes/server-process.ts";

const MIB = 1024 * 1024;
/** The package contains one large binary file and many small modules. */
const BINARY_BYTES = 20 * MIB;
const MODULES = 1_000;
const MODULE_BYTES = 30 * 1024;
const PAIRS = 5;
const CONCURRENT_FLUSHES = 8;

interface Extraction {
  written_ms: number;
  flushed_ms: number;
}

export async function measureSupplyInstall(): Promise<Row[]> {
  const registry = await startDockerRegistry({ login: false });
  const base = mkdtempSync(join(tmpdir(), "backplane-bench-supply-"));
  const server = await startGateway({}, `[egress]\nallow_private = ["${registry.host}"]\n`);
  const echo = await buildEchoPackage();
  try {
    addFiles(echo.folder);
    const cli = createCli(server, base);
    const key = join(base, "bench.key");
    await cli("key", "generate", "-o", key);
    await cli("key", "trust", `${key}.pub`, "--name", "Bench", "--packages", "bench/*");
    await cli("plugin", "sign", echo.folder, "--key", key);
    const repository = `${registry.host}/bench/echo`;
    const reference = `oci://${repository}:1.0.0`;
    const layout = join(base, "layout");
    const pack = await measureMs(() => cli("plugin", "pack", echo.folder, "--oci", "-o", layout));
    const push = await measureMs(() => cli("plugin", "push", layout, reference));
    const pull = await measureMs(() => cli("plugin", "pull", reference, "-o", join(base, "pulled")));
    const layer = findLayer(layout);
    const times = { install: [] as number[], written: [] as number[], flushed: [] as number[] };
    for (let pair = 0; pair <= PAIRS; pair++) {
      const install = await installOnce(server, reference);
      const files = join(base, `files-${pair}`);
      const { written_ms, flushed_ms } = await extractLayer(`http://${repository}`, layer, files);
      rmSync(files, { recursive: true });
      // The first pair warms up.
      if (pair === 0) continue;
      times.install.push(install);
      times.written.push(written_ms);
      times.flushed.push(flushed_ms);
    }
    await cli("plugin", "install", reference, "--bind");
    const invoke = await measureMs(() => cli("invoke", "echo", "--input", '{"text":"x"}'));
    return [
      createRow(
        "supply.install",
        "ms to install 50 MB from a registry",
        "lower",
        median(times.install),
        median(times.flushed),
        { not_flushed: median(times.written), pack, push, pull, invoke },
      ),
    ];
  } finally {
    await server.stop();
    registry.stop();
    echo.remove();
    rmSync(base, { recursive: true, force: true });
  }
}

/** Hexadecimal digits of random bytes compress to about half of their size. */
function addFiles(folder: string): void {
  const write = (path: string, bytes: number) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), randomBytes(bytes / 2).toString("hex"));
  };
  write("bin/data", BINARY_BYTES);
  for (let n = 0; n < MODULES; n++) write(`lib/module-${n % 50}/file-${n}.js`, MODULE_BYTES);
}

async function measureMs(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

function createCli({ url, token }: Server, home: string) {
  const env = { ...process.env, BACKPLANE_HOME: home, BACKPLANE_URL: url, BACKPLANE_TOKEN: token! };
  return async (...args: string[]): Promise<void> => {
    await promisify(execFile)(process.execPath, [CLI, ...args], { env });
  };
}

function findLayer(layout: string): string {
  const blobs = join(layout, "blobs/sha256");
  const sizes = readdirSync(blobs).map((name) => ({ name, size: readFileSync(join(blobs, name)).length }));
  return sizes.toSorted((a, b) => b.size - a.size)[0]!.name;
}

async function installOnce({ url, token }: Server, reference: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const from = performance.now();
  const response = await fetch(`${url}/v1/plugin-installations`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ source: { kind: "oci", reference }, bind: false }),
  });
  const elapsed = performance.now() - from;
  if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
  const { packages } = (await response.json()) as { packages: { package: { id: string } }[] };
  for (const { package: installed } of packages)
    await fetch(`${url}/v1/plugin-packages/${installed.id}`, { method: "DELETE", headers });
  return elapsed;
}

/**
 * Downloads, hashes, decompresses and writes in one stream, without checking names, types or limits. Returns the
 * time until the files were written and the time until they were flushed; an installation has to flush them as well.
 */
async function extractLayer(repository: string, digest: string, into: string): Promise<Extraction> {
  const from = performance.now();
  const { origin, pathname } = new URL(repository);
  const response = await fetch(`${origin}/v2${pathname}/blobs/sha256:${digest}`);
  if (!response.ok || response.body === null)
    throw new Error(`the registry returned HTTP ${response.status}`);
  const sum = createHash("sha256");
  const hashed = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sum.update(chunk);
      done(null, chunk);
    },
  });
  const tar = extract();
  const files: string[] = [];
  const writing = writeEntries(tar, into, files);
  await pipeline(
    Readable.fromWeb(response.body as NodeReadableStream),
    hashed,
    createGunzip(),
    tar as unknown as NodeJS.WritableStream,
  );
  await writing;
  if (sum.digest("hex") !== digest) throw new Error("the layer has a different digest");
  const written_ms = performance.now() - from;
  const flush = async () => {
    for (let file = files.pop(); file !== undefined; file = files.pop()) await flushFile(file);
  };
  await Promise.all(Array.from({ length: CONCURRENT_FLUSHES }, flush));
  return { written_ms, flushed_ms: performance.now() - from };
}

async function writeEntries(tar: Extract, into: string, files: string[]): Promise<void> {
  for await (const entry of tar) {
    const file = join(into, entry.header.name);
    files.push(file);
    await mkdir(dirname(file), { recursive: true });
    const handle = await open(file, "wx");
    for await (const chunk of entry as unknown as AsyncIterable<Buffer>) await handle.write(chunk);
    await handle.close();
  }
}

async function flushFile(file: string): Promise<void> {
  const handle = await open(file);
  await handle.sync();
  await handle.close();
}
