import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  DEFAULT_URL,
  isAlive,
  locateHome,
  locateToken,
  locateUrl,
} from "../../src/context/locate-gateway.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const writeState = (pid: number, url = "http://127.0.0.1:9999") =>
  writeFileSync(join(home, "gateway.json"), JSON.stringify({ url, pid, version: "0.1.0" }));

describe("home", () => {
  test("uses the flag, then BACKPLANE_HOME, then the XDG data folder", () => {
    const env = { BACKPLANE_HOME: "/b", XDG_DATA_HOME: "/x", HOME: "/h" };
    expect(locateHome({ home: "rel" }, env, "/cwd")).toBe("/cwd/rel");
    expect(locateHome({}, env, "/cwd")).toBe("/b");
    expect(locateHome({}, { ...env, BACKPLANE_HOME: "" }, "/cwd")).toBe("/x/backplane");
    expect(locateHome({}, { HOME: "/h" }, "/cwd")).toBe("/h/.local/share/backplane");
  });
});

describe("url", () => {
  test("uses the flag, then BACKPLANE_URL, then the state file, then the default", () => {
    expect(locateUrl({ token: "bpk_x" }, {}, home)).toBe(DEFAULT_URL);
    expect(locateUrl({}, { BACKPLANE_TOKEN: "bpk_x" }, home)).toBe(DEFAULT_URL);
    writeState(process.pid);
    expect(locateUrl({}, {}, home)).toBe("http://127.0.0.1:9999");
    expect(locateUrl({}, { BACKPLANE_URL: "http://b/" }, home)).toBe("http://b");
    expect(locateUrl({ url: "https://c" }, { BACKPLANE_URL: "http://b" }, home)).toBe("https://c");
  });

  test("refuses the state file of a gateway that has exited", () => {
    const { pid } = spawnSync(process.execPath, ["--version"]);
    writeState(pid);
    expect(() => locateUrl({}, {}, home)).toThrow(expect.objectContaining({ code: "daemon.unreachable" }));
  });

  test("treats a zombie process as dead", async () => {
    // The shell does not wait for its child, so the child stays a zombie as long as the shell lives.
    const shell = spawn("/bin/sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      const pid = Number(
        await new Promise((resolve) => shell.stdout.once("data", (text: Buffer) => resolve(text.toString()))),
      );
      await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 5_000);
      expect(isAlive(shell.pid ?? 0)).toBe(true);
    } finally {
      shell.kill("SIGKILL");
    }
  });

  test("throws for a home that has a token but no running gateway", () => {
    writeFileSync(join(home, "admin.token"), "bpa_file\n");
    const unreachable = expect.objectContaining({ code: "daemon.unreachable" });
    expect(() => locateUrl({}, {}, home)).toThrow(unreachable);
    writeFileSync(join(home, "gateway.json"), "{");
    expect(() => locateUrl({}, {}, home)).toThrow(unreachable);
  });

  test.each(["nonsense", "ftp://x", "file:///etc/passwd"])("rejects the URL %s", (url) => {
    expect(() => locateUrl({ url }, {}, home)).toThrow(expect.objectContaining({ code: "cli.usage" }));
  });
});

describe("token", () => {
  test("uses the flag, then BACKPLANE_TOKEN, then admin.token", () => {
    writeFileSync(join(home, "admin.token"), "bpa_file\n");
    expect(locateToken({}, {}, home)).toBe("bpa_file");
    expect(locateToken({}, { BACKPLANE_TOKEN: "bpk_env" }, home)).toBe("bpk_env");
    expect(locateToken({ token: "bpk_flag" }, { BACKPLANE_TOKEN: "bpk_env" }, home)).toBe("bpk_flag");
  });

  test("reports a missing token with a fix", () => {
    const fix = expect.stringContaining("backplane up");
    expect(() => locateToken({}, {}, home)).toThrow(expect.objectContaining({ code: "auth.missing", fix }));
  });

  test("reports an unreadable token file", () => {
    const fix = expect.stringContaining("--token");
    expect(() => locateToken({}, {}, join(home, "admin.token", "x"))).toThrow(
      expect.objectContaining({ code: "auth.missing", fix }),
    );
  });
});
