/** Builds of Python source archives, with real backends in the real sandbox. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { processesWith } from "../../../../test/support/gateway/processes.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import type { ProcessRunner } from "../../src/index.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

/** Creates a build folder below a private folder. */
function createBuildFolder(backend: string, requirements: Record<string, string> = {}): string {
  const folder = join(createEmptyFolder(), "box");
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  mkdirSync(join(folder, "out"), { recursive: true });
  write("source/own/backend.py", backend);
  for (const [path, text] of Object.entries(requirements)) write(`env/site-packages/${path}`, text);
  return folder;
}

interface RunOptions {
  signal?: AbortSignal;
  limit_ms?: number;
  known?: boolean;
  sandbox?: Parameters<typeof createConfinedTestRunner>[0];
}

const runBuild = (folder: string, { signal, limit_ms, known = true, sandbox = {} }: RunOptions = {}) =>
  (createConfinedTestRunner(sandbox).runner as ProcessRunner).sourceBuilds.run({
    folder,
    name: "acme 1.0",
    python: "/usr/bin/python3",
    backend: { module: "backend", attribute: "", path: ["own"] },
    requirements_known: known,
    signal: signal ?? new AbortController().signal,
    ...(limit_ms === undefined ? {} : { limit_ms }),
  });

verifies(
  "source.pypi",
  "builds a wheel without network, secrets, or the files and packages of the host",
  async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    process.env.HOST_CANARY = "canary-of-the-host";
    onTestFinished(() => void delete process.env.HOST_CANARY);
    const { port } = server.address() as { port: number };
    const host = dirname(import.meta.dirname);
    const backend = `
import json, os, socket, sys
import acme_tool

def attempt(work):
    try:
        work()
        return True
    except OSError:
        return False

def build_wheel(directory, config_settings=None, metadata_directory=None):
    seen = {
        "tool": acme_tool.WORD,
        "env": dict(os.environ),
        "host": os.path.exists(${JSON.stringify(host)}),
        "reached": attempt(lambda: socket.create_connection(("127.0.0.1", ${port}), timeout=5)),
        "outside": [path for path in ("/usr/bin/x", "/etc/x", ${JSON.stringify(`${host}/x`)}) if attempt(lambda: open(path, "w"))],
        "packages": [path for path in sys.path if "dist-packages" in path],
        "cwd": os.getcwd(),
    }
    with open(os.path.join(directory, "seen.json"), "w") as file:
        json.dump(seen, file)
`;
    const folder = createBuildFolder(backend, { "acme_tool.py": 'WORD = "required"\n' });
    await runBuild(folder);
    const seen = JSON.parse(readFileSync(join(folder, "out", "seen.json"), "utf8")) as { env: object };
    expect(seen).toMatchObject({
      tool: "required",
      host: false,
      reached: false,
      outside: [],
      packages: [],
      env: { SOURCE_DATE_EPOCH: "315532800" },
    });
    expect(JSON.stringify(seen.env)).not.toContain("canary-of-the-host");
    expect(connections).toBe(0);
  },
  120_000,
);

test("asks the backend for its requirements if they are unknown, and does not build if there are any", {
  timeout: 120_000,
}, async () => {
  const backend = `
def get_requires_for_build_wheel(config_settings=None):
    return ["acme-late"]
def build_wheel(directory, config_settings=None, metadata_directory=None):
    open(directory + "/built", "w").close()
`;
  const folder = createBuildFolder(backend);
  await runBuild(folder, { known: false });
  expect(readdirSync(join(folder, "out"))).toEqual(["requires.json"]);
  expect(readFileSync(join(folder, "out", "requires.json"), "utf8")).toBe('["acme-late"]');
  await runBuild(folder, { known: true });
  expect(readdirSync(join(folder, "out"))).toContain("built");
});

verifies(
  "source.pypi",
  "kills a build that does not finish, with every process that it started",
  async () => {
    const backend = `
import subprocess, time
def build_wheel(directory, *args):
    subprocess.Popen(["sleep", "876543"], start_new_session=True)
    open(directory + "/began", "w").close()
    time.sleep(876543)
`;
    const unfinished = createBuildFolder(backend);
    await expect(runBuild(unfinished, { limit_ms: 3_000 })).rejects.toMatchObject({
      code: "plugin.install_failed",
      message: expect.stringContaining(
        "The build of acme 1.0 failed in the sandbox (it did not exit within 3000 ms)",
      ),
    });
    await expect.poll(() => processesWith("876543")).toEqual([]);
    const cancelled = createBuildFolder(backend);
    const stop = new AbortController();
    const running = runBuild(cancelled, { signal: stop.signal });
    running.catch(() => {});
    await expect.poll(() => existsSync(join(cancelled, "out", "began")), { timeout: 60_000 }).toBe(true);
    stop.abort();
    await expect(running).rejects.toMatchObject({ code: "request.cancelled" });
    await expect.poll(() => processesWith("876543")).toEqual([]);
  },
  180_000,
);

verifies(
  "source.pypi",
  "limits the processes of a build and leaves none of them behind",
  async () => {
    const backend = `
import os, time
def build_wheel(directory, *args):
    count = 0
    try:
        while count < 5000:
            if os.fork() == 0:
                time.sleep(600)
            count += 1
    except OSError:
        pass
    with open(directory + "/count", "w") as file:
        file.write(str(count))
`;
    const folder = createBuildFolder(backend);
    const limits = { processes: 64 };
    await runBuild(folder, { sandbox: { sandbox: { limits } } });
    expect(Number(readFileSync(join(folder, "out", "count"), "utf8"))).toBeLessThanOrEqual(64);
    // The arguments of the processes contain the program that runs the backend.
    await expect.poll(() => processesWith("get_requires_for_build_wheel")).toEqual([]);
  },
  180_000,
);

test("reports the output of a build that fails", { timeout: 120_000 }, async () => {
  const folder = createBuildFolder('def build_wheel(*args):\n    raise SystemExit("error: no compiler")\n');
  await expect(runBuild(folder)).rejects.toMatchObject({
    code: "plugin.install_failed",
    message: expect.stringContaining("no compiler") as unknown,
    fix: expect.stringContaining("A build has no network") as unknown,
  });
});
