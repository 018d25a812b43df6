/**
 * The installation of a published MCP server through the gateway, compared with `npm install` of the same package in an
 * empty folder. Needs the npm registry. Each side has its own cache, which is empty (cold) or filled (warm).
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";
import { type Server, startGateway } from "../../processes/server-process.ts";

const SPEC = process.env.BENCH_NPM_SPEC ?? "@modelcontextprotocol/server-everything";
const PAIRS = 5;
const FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];

export async function measureNpmFetch(): Promise<Row[]> {
  const base = mkdtempSync(join(tmpdir(), "backplane-bench-npm-"));
  const caches = { ours: join(base, "ours"), npm: join(base, "npm") };
  const server = await startGateway({ NPM_CONFIG_CACHE: caches.ours });
  try {
    const rows: Row[] = [];
    for (const cache of ["cold", "warm"] as const) {
      const times = { ours: [] as number[], npm: [] as number[] };
      for (let pair = 0; pair < PAIRS; pair++) {
        if (cache === "cold")
          for (const dir of Object.values(caches)) rmSync(dir, { recursive: true, force: true });
        times.ours.push(await fetchWithGateway(server));
        times.npm.push(fetchWithNpm(base, caches.npm));
      }
      const limit = median(times.npm);
      rows.push(
        createRow(`npm.fetch.${cache}`, "ms to install a server", "lower", median(times.ours), limit),
      );
    }
    return rows;
  } finally {
    await server.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

async function fetchWithGateway({ url, token }: Server): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const from = performance.now();
  const response = await fetch(`${url}/v1/plugin-installations`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ source: { kind: "npm", spec: SPEC }, bind: false }),
  });
  const elapsed = performance.now() - from;
  if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
  const { packages } = (await response.json()) as { packages: { package: { id: string } }[] };
  for (const { package: installed } of packages)
    await fetch(`${url}/v1/plugin-packages/${installed.id}`, { method: "DELETE", headers });
  return elapsed;
}

function fetchWithNpm(base: string, cache: string): number {
  const dir = mkdtempSync(join(base, "folder-"));
  const from = performance.now();
  execFileSync("npm", ["install", ...FLAGS, "--cache", cache, "--prefix", dir, SPEC], {
    cwd: dir,
    stdio: "ignore",
  });
  const elapsed = performance.now() - from;
  rmSync(dir, { recursive: true, force: true });
  return elapsed;
}
