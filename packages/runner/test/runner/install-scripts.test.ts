/** Install scripts of npm packages, with the real npm in the real sandbox. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { processesWith } from "../../../../test/support/gateway/processes.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import type { ProcessRunner } from "../../src/index.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

const NPM_CLI = join(
  execFileSync("npm", ["root", "--global"], { encoding: "utf8" }).trim(),
  "npm",
  "bin",
  "npm-cli.js",
);

/** Creates a tree as npm installs it, in a folder below a private one. */
function createPackageTree(packages: Record<string, object>): string {
  const folder = join(createEmptyFolder(), "tree");
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{"name":"mcp-server","private":true}');
  for (const [name, scripts] of Object.entries(packages)) {
    const dir = join(folder, "node_modules", name);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "package.json"), JSON.stringify({ name, version: "1.0.0", scripts }));
  }
  return folder;
}

const runInstallScripts = (folder: string, packages: string[], signal = new AbortController().signal) =>
  (createConfinedTestRunner().runner as ProcessRunner).installScripts.run({
    folder,
    packages,
    npm_cli: realpathSync(NPM_CLI),
    signal,
  });

verifies(
  "server.native",
  "runs only the scripts of the named packages, without network, secrets or files of the host",
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
    const probe = `
      const fs = require("node:fs");
      const seen = { env: JSON.stringify(process.env), host: fs.existsSync("${dirname(import.meta.dirname)}") };
      const done = (reached) => fs.writeFileSync("built.json", JSON.stringify({ ...seen, reached }));
      const socket = require("node:net").connect(${port}, "127.0.0.1", () => done(true));
      socket.on("error", () => done(false));
    `;
    const folder = createPackageTree({
      native: { install: "node probe.js" },
      other: { postinstall: "touch ran" },
    });
    writeFileSync(join(folder, "node_modules/native/probe.js"), probe);
    await runInstallScripts(folder, ["native"]);
    const built = JSON.parse(readFileSync(join(folder, "node_modules/native/built.json"), "utf8")) as {
      env: string;
    };
    expect(built).toMatchObject({ host: false, reached: false });
    expect(built.env).not.toContain("canary-of-the-host");
    expect(connections).toBe(0);
    expect(existsSync(join(folder, "node_modules/other/ran"))).toBe(false);
  },
  120_000,
);

verifies(
  "run.progress",
  "ends scripts that are cancelled",
  async () => {
    const folder = createPackageTree({ native: { install: "touch began; sleep 987654" } });
    const stop = new AbortController();
    const running = runInstallScripts(folder, ["native"], stop.signal);
    running.catch(() => {});
    await expect.poll(() => existsSync(join(folder, "node_modules/native/began"))).toBe(true);
    stop.abort();
    await expect(running).rejects.toMatchObject({ code: "request.cancelled" });
    await expect.poll(() => processesWith("987654")).toEqual([]);
  },
  120_000,
);

test("reports the output of a script that fails", { timeout: 120_000 }, async () => {
  const folder = createPackageTree({ native: { install: "echo 'error: no compiler' >&2; exit 3" } });
  await expect(runInstallScripts(folder, ["native"])).rejects.toMatchObject({
    code: "plugin.install_failed",
    message: expect.stringContaining("no compiler") as unknown,
  });
});
