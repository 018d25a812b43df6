/** `npm start` as a newcomer types it, on an empty home and any free port: ready, healthy, stops when told. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const home = mkdtempSync(join(tmpdir(), "backplane-start-"));
const env = { ...process.env, BACKPLANE_HOME: home, BACKPLANE_PORT: "0" };
const child = spawn("npm", ["start"], { env, stdio: ["ignore", "pipe", "inherit"], detached: true });
const died = new Promise<never>((_, reject) => {
  child.once("exit", (code, signal) => reject(new Error(`npm start ended early: ${code ?? signal}`)));
});
died.catch(() => undefined);

async function readyUrl(): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout) {
    text += chunk;
    const match = /https?:\/\/[\w.[\]:-]+/.exec(text);
    if (match !== null) return match[0];
  }
  throw new Error(`npm start printed no URL:\n${text}`);
}

try {
  const timeout = new Promise<never>((_, reject) =>
    setTimeout(() => reject(new Error("not ready in 120 s")), 120_000).unref(),
  );
  const url = await Promise.race([readyUrl(), died, timeout]);
  const health = await fetch(`${url}/healthz`);
  if (health.status !== 200) throw new Error(`/healthz answered ${health.status}`);
  const refused = await fetch(`${url}/v1/plugin-packages`);
  if (refused.status !== 401) throw new Error(`no token answered ${refused.status}, not 401`);
  const token = readFileSync(join(home, "admin.token"), "utf8").trim();
  const listed = await fetch(`${url}/v1/plugin-packages`, { headers: { authorization: `Bearer ${token}` } });
  if (listed.status !== 200) throw new Error(`the admin token answered ${listed.status}`);
  const ended = new Promise((resolve) => child.once("exit", resolve));
  process.kill(-child.pid!, "SIGTERM");
  await Promise.race([ended, timeout]);
  console.log(`npm start: ready on ${url}, healthy, stopped`);
  process.exitCode = 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  try {
    process.kill(-child.pid!, "SIGKILL");
  } catch {
    // It is gone already.
  }
  process.exitCode = 1;
} finally {
  rmSync(home, { recursive: true, force: true });
}
process.exit();
