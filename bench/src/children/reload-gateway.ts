/**
 * A whole gateway in this process (`node --expose-gc src/children/reload-gateway.ts`) that watches a folder of tool
 * files. It prints its URL, its admin token, and the paths of that folder and of its blobs; the parent process removes
 * the folder that contains both. It answers each line on stdin with the size of its heap after a garbage collection.
 */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadConfig, startGateway } from "@backplane/gateway";

const base = mkdtempSync(join(tmpdir(), "backplane-bench-reload-"));
const folder = join(base, "folder");
mkdirSync(join(folder, "tools"), { recursive: true });
writeFileSync(join(folder, "tools/saved.ts"), "export default {};\n");
const env = { BACKPLANE_LOG_LEVEL: "error" };
const gateway = await startGateway(loadConfig({ home: join(base, "home"), env, flags: { port: 0 } }));
const token = readFileSync(gateway.admin_token_file, "utf8").trim();
console.log(JSON.stringify({ url: gateway.url, token, folder, blobs: join(base, "home/blobs/sha256") }));

const { gc } = globalThis as unknown as { gc: () => void };
for await (const _line of createInterface({ input: process.stdin })) {
  // Gives the gateway time to close the resources of the last request.
  await new Promise((resolve) => setTimeout(resolve, 500));
  gc();
  gc();
  const { heapUsed, external } = process.memoryUsage();
  console.log(JSON.stringify({ heap: heapUsed + external }));
}
await gateway.stop();
