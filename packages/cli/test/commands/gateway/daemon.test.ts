/** `up` and `down`, mostly as real processes: readiness, signals, background mode; and `doctor` without a gateway. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isAlive } from "../../../src/context/locate-gateway.ts";
import { EXIT, runProgram } from "../../../src/index.ts";
import { captureIo } from "../../support/capture-io.ts";
import { captureOutput } from "../../support/capture-output.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

const MAIN = fileURLToPath(new URL("../../../dist/main.js", import.meta.url));

let home: string;
let started: ChildProcess[];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  started = [];
});
afterEach(() => {
  for (const child of started) if (child.exitCode === null) child.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
});

function startGatewayProcess(...flags: string[]) {
  const child = spawn(process.execPath, [MAIN, "up", "--port", "0", ...flags], {
    env: { HOME: home, PATH: process.env.PATH, BACKPLANE_HOME: home, BACKPLANE_LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.push(child);
  return { child, ...captureOutput(child) };
}

async function backplane(...argv: string[]) {
  const io = captureIo({
    env: { HOME: home, PATH: process.env.PATH ?? "", BACKPLANE_HOME: home, BACKPLANE_LOG_LEVEL: "error" },
  });
  return { exit: await runProgram(argv, io), out: io.out(), err: io.err() };
}

describe("up", () => {
  test("prints readiness, sign-in link and token file; stops on SIGTERM", async () => {
    const gateway = startGatewayProcess();
    const url = await waitForOutput(gateway.out, /ready at (http:\/\/127\.0\.0\.1:\d+)\n/);
    await waitForOutput(gateway.err, /admin\.token\n/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(gateway.err()).toContain(`${url}/login?code=`);
    expect(gateway.out().trim().split("\n")).toHaveLength(1);
    expect(gateway.out() + gateway.err()).not.toContain("\u001b");
    expect((await backplane("status")).exit).toBe(EXIT.ok);
    gateway.child.kill("SIGTERM");
    expect(await gateway.closed).toBe(0);
    expect(existsSync(join(home, "gateway.json"))).toBe(false);
    expect((await backplane("status")).exit).toBe(EXIT.unreachable);
  });

  test("prints one JSON line with --json; stops on SIGINT; refuses a second gateway on the same home", async () => {
    const gateway = startGatewayProcess("--json");
    const line = await waitForOutput(gateway.out, /^(.*)\n/);
    const ready = JSON.parse(line) as Record<string, unknown>;
    expect(Object.keys(ready).sort()).toEqual(["home", "login_url", "pid", "token_file", "url", "version"]);
    expect(ready).toMatchObject({ home, pid: gateway.child.pid, token_file: join(home, "admin.token") });

    const second = startGatewayProcess();
    expect(await second.closed).toBe(EXIT.failed);
    expect(second.err()).toMatch(/error\[home\.locked\].*\n.*\nfix: /);

    gateway.child.kill("SIGINT");
    expect(await gateway.closed).toBe(0);
    expect(gateway.out()).toBe(`${line}\n`);
  });

  test("exits immediately with 130 on a second Ctrl-C", async () => {
    const io = captureIo({ env: { HOME: home, BACKPLANE_HOME: home, BACKPLANE_LOG_LEVEL: "silent" } });
    const ended = runProgram(["up", "--port", "0"], io);
    await waitForOutput(io.out, /ready at/);
    io.signal("SIGINT");
    expect(io.exits).toEqual([]);
    io.signal("SIGINT");
    expect(io.exits).toEqual([EXIT.interrupted]);
    expect(await ended).toBe(EXIT.ok);
  });

  test("reports a home that cannot be created", async () => {
    writeFileSync(join(home, "file"), "");
    const io = captureIo();
    expect(await runProgram(["up", "--port", "0", "--home", join(home, "file", "x")], io)).toBe(EXIT.failed);
    expect(io.err()).toMatch(/^error\[config\.invalid\].*\n.*ENOTDIR.*\nfix: .*--home/);
  });

  test("refuses an unsafe listen address with exit code 2", async () => {
    const gateway = startGatewayProcess("--host", "0.0.0.0");
    expect(await gateway.closed).toBe(EXIT.usage);
    expect(gateway.err()).toContain("--insecure-listen");
  });
});

describe("up --detach, down", () => {
  test("returns when ready, keeps running, and stops with down", async () => {
    const result = await backplane("up", "--detach", "--port", "0", "--json");
    expect(result.exit).toBe(EXIT.ok);
    const ready = JSON.parse(result.out) as { url: string; pid: number; login_url: string };
    try {
      expect((await fetch(`${ready.url}/healthz`)).status).toBe(200);
      expect(readFileSync(join(home, "gateway.log"), "utf8")).not.toContain(ready.login_url);
      expect(statSync(join(home, "gateway.log")).mode & 0o077).toBe(0);

      const again = await backplane("up", "--detach", "--port", "0");
      expect(again.exit).toBe(EXIT.failed);
      expect(again.err).toContain("error[home.locked]");
      expect(again.err).toContain(`A gateway is already running at ${ready.url} (process ${ready.pid})`);

      const down = await backplane("down", "--json");
      expect(JSON.parse(down.out)).toMatchObject({ stopped: true, pid: ready.pid });
      expect(isAlive(ready.pid)).toBe(false);
      expect((await backplane("down")).exit).toBe(EXIT.unreachable);
    } finally {
      try {
        process.kill(ready.pid, "SIGKILL");
      } catch {
        // The process has exited, as expected.
      }
    }
  });
});

describe("doctor without a gateway", () => {
  test("reports that no gateway is running, and exits with 0", async () => {
    const { exit, out } = await backplane("doctor", "--json");
    expect(exit).toBe(EXIT.ok);
    const { status, checks } = JSON.parse(out) as {
      status: string;
      checks: { name: string; status: string; fix?: string }[];
    };
    expect(status).toBe("degraded");
    expect(checks.find((check) => check.name === "gateway")).toMatchObject({
      status: "degraded",
      fix: "backplane up",
    });
  });
});
