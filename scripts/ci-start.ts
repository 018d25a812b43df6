/**
 * Runs the README's first steps as a new user types them, with an empty home: `npm start` starts the gateway,
 * and every command of "Run a plugin" has the documented result, in the sandbox. Only the port differs,
 * because 7420 may be in use.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";

const README_URL = "http://127.0.0.1:7420";
/** `npm start` may have to install system packages first. */
const READY_MS = 600_000;
const STOP_MS = 60_000;

const user_home = mkdtempSync(join(tmpdir(), "backplane-start-"));
const home = join(user_home, ".local/share/backplane");
mkdirSync(join(user_home, ".local/share"), { recursive: true });
const env = newcomerEnvironment();
const child = spawn("npm", ["start"], { env, stdio: ["ignore", "pipe", "inherit"], detached: true });
const exited_early = new Promise<never>((_, reject) => {
  child.once("exit", (code, signal) =>
    reject(new Error(`npm start exited before the gateway was ready: ${code ?? signal}`)),
  );
});
exited_early.catch(() => undefined);

/** HOME is replaced, so that `~` in the README is an empty folder. npm keeps its cache. */
function newcomerEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(?:BACKPLANE_|XDG_)/.test(name));
  const cache = process.env.npm_config_cache ?? join(homedir(), ".npm");
  return { ...Object.fromEntries(inherited), HOME: user_home, npm_config_cache: cache, BACKPLANE_PORT: "0" };
}

/**
 * Returns the URL after `is ready at`. The pipe is read continuously, so that the gateway never blocks on it.
 */
function waitForReadyUrl(): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      const match = /is ready at (https?:\/\/\S+)/.exec(text);
      if (match !== null) resolve(match[1]!);
    });
  });
}

function rejectAfter(ms: number, message: string): Promise<never> {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(message)), ms).unref());
}

/** Resolves when every process of the group has exited. npm itself may exit before the gateway, which still writes. */
async function waitForGroup(group: number): Promise<void> {
  for (;;) {
    try {
      process.kill(-group, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The shell blocks of one section of the README. */
function shellBlocksOf(section: string): string[] {
  const text = readFileSync("README.md", "utf8");
  const begin = text.indexOf(`\n## ${section}\n`);
  if (begin < 0) throw new Error(`README.md has no section "${section}".`);
  const end = text.indexOf("\n## ", begin + 1);
  return Array.from(text.slice(begin, end).matchAll(/^```sh\n(.*?)^```$/gms), (match) => match[1]!);
}

function runScript(script: string): string {
  const { status, stdout, stderr } = spawnSync("sh", ["-e", "-c", script], { env, encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(
    `README.md: these commands failed with exit code ${status}:\n${script}\n${stdout}${stderr}`,
  );
}

function expectMatch(output: string, expected: RegExp, command: string): void {
  if (!expected.test(output)) throw new Error(`README.md: ${command} did not show ${expected}:\n${output}`);
}

async function checkHttpAccess(url: string): Promise<void> {
  const health = await fetch(`${url}/healthz`);
  if (health.status !== 200) throw new Error(`/healthz returned HTTP ${health.status}.`);
  const refused = await fetch(`${url}/v1/plugin-packages`);
  if (refused.status !== 401)
    throw new Error(`A request without a token got HTTP ${refused.status} instead of 401.`);
  const token = readFileSync(join(home, "admin.token"), "utf8").trim();
  const listed = await fetch(`${url}/v1/plugin-packages`, { headers: { authorization: `Bearer ${token}` } });
  if (listed.status !== 200)
    throw new Error(`A request with the admin token got HTTP ${listed.status} instead of 200.`);
}

function checkFirstCall(url: string): void {
  const [commands, request] = shellBlocksOf("Run a plugin");
  const lines = commands!.trim().split("\n");
  const output = lines.map((line) => runScript(line)).join("\n");
  expectMatch(output, /Installed acme\/hello@/, "plugin install");
  expectMatch(output, /Hello, Ada!/, "invoke");
  expectMatch(output, /\bhello +succeeded\b.*\bisolated\b/, "invocation list");
  if (spawnSync("curl", ["--version"], { env }).error !== undefined) {
    console.log("curl is not installed, so the README's request over HTTP was skipped.");
    return;
  }
  expectMatch(runScript(request!.replaceAll(README_URL, url)), /"greeting":"Hello, Ada!"/, "curl");
}

try {
  const url = await Promise.race([
    waitForReadyUrl(),
    exited_early,
    rejectAfter(READY_MS, `The gateway was not ready after ${READY_MS} ms.`),
  ]);
  await checkHttpAccess(url);
  checkFirstCall(url);
  process.kill(-child.pid!, "SIGTERM");
  await Promise.race([
    waitForGroup(child.pid!),
    rejectAfter(STOP_MS, `The gateway had not stopped after ${STOP_MS} ms.`),
  ]);
  console.log(`npm start: ready on ${url}, healthy, the README's first call ran in the sandbox, stopped`);
  process.exitCode = 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  try {
    process.kill(-child.pid!, "SIGKILL");
  } catch {
    // The process has already exited.
  }
  process.exitCode = 1;
} finally {
  rmSync(user_home, { recursive: true, force: true });
}
process.exit();
