import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT, runProgram } from "../../src/index.ts";
import { OVERVIEW } from "../../src/program/overview.ts";
import { buildProgram } from "../../src/program/program.ts";
import { type CaptureOptions, captureIo } from "../support/capture-io.ts";

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

async function backplane(argv: string[], options: CaptureOptions = {}) {
  const io = captureIo({ ...options, env: { BACKPLANE_HOME: home, ...options.env } });
  return { exit: await runProgram(argv, io), out: io.out(), err: io.err() };
}

describe("help", () => {
  test("prints the overview without a command", async () => {
    expect(await backplane([])).toEqual({ exit: EXIT.ok, out: OVERVIEW, err: "" });
    expect(await backplane(["--help"])).toEqual({ exit: EXIT.ok, out: OVERVIEW, err: "" });
  });

  test("lists every command and global flag in the overview", () => {
    const program = buildProgram(captureIo(), false, () => {});
    for (const command of program.commands) {
      expect(OVERVIEW).toMatch(new RegExp(`^  ${command.name()} {2,}`, "m"));
      const line = OVERVIEW.split("\n").find((text) => text.startsWith(`  ${command.name()} `)) ?? "";
      for (const sub of command.commands) expect(line, command.name()).toContain(sub.name());
    }
    for (const option of program.options) expect(OVERVIEW).toContain(option.long);
  });

  test("describes every command and exits with 0 for its --help", async () => {
    const program = buildProgram(captureIo(), false, () => {});
    const paths = (command: Command, path: string[]): string[][] =>
      command.commands.flatMap((sub) => [[...path, sub.name()], ...paths(sub, [...path, sub.name()])]);
    for (const path of paths(program, [])) {
      const { exit, out, err } = await backplane([...path, "--help"]);
      expect({ exit, err }, path.join(" ")).toEqual({ exit: EXIT.ok, err: "" });
      expect(out, path.join(" ")).toMatch(/^Usage: backplane .+\n\n[A-Z]/);
    }
  });

  test("prints the help of a group without a subcommand", async () => {
    const { exit, out } = await backplane(["plugin"]);
    expect(exit).toBe(EXIT.ok);
    expect(out).toContain("install [options] [source]");
  });

  test("prints the version", async () => {
    expect((await backplane(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("usage errors", () => {
  test.each([
    [["frobnicate"], "Unknown command 'frobnicate'"],
    [["plugin", "instal"], "install"],
    [["up", "--prot", "1"], "--port"],
    [["up", "--port", "http"], "whole number"],
    [["invoke"], "No export or binding was specified"],
    [["invoke", "x", "--input", "{"], "not JSON"],
    [["secret", "set"], "name"],
    [["secret", "set", "a", "b"], "Too many arguments"],
    [["key", "create", "ci"], "--scope"],
    [["key", "create", "ci", "--scope", "everything"], "is not a scope"],
    [["binding", "create", "acme/x", "t", "--class", "root"], "Allowed choices"],
    [["binding", "set", "bind_1", "--secret", "x"], "slot=NAME"],
    [["plugin", "install", "/nowhere"], "/nowhere"],
    [["plugin", "install", "/tmp", "--class", "worker"], "--bind"],
    [["completion", "tcsh"], "bash"],
    [["status", "--url", "nonsense"], "is not an HTTP or HTTPS URL"],
  ])("%j prints three lines and exits with 2", async (argv, hint) => {
    const { exit, out, err } = await backplane([...argv, "--token", "bpa_none"]);
    expect({ exit, out }).toEqual({ exit: EXIT.usage, out: "" });
    const lines = err.split("\n");
    expect(lines).toHaveLength(4);
    expect(lines[0]).toBe("error[cli.usage] The command line is not valid.");
    expect(lines[1]).toContain(hint);
    expect(lines[2]).toMatch(/^fix: /);
  });

  test("suggests --help of the nearest command as the fix", async () => {
    expect((await backplane(["--home", "/x", "plugin", "frob"])).err).toContain(
      "fix: backplane plugin --help\n",
    );
    expect((await backplane(["frob"])).err).toContain("fix: backplane --help\n");
    expect((await backplane(["key", "create", "ci"])).err).toContain("fix: backplane key create --help\n");
  });

  test.each([
    [["start"], "up", "backplane up --help"],
    [["stop"], "down", "backplane down --help"],
    [["install", "x"], "plugin install", "backplane plugin install --help"],
    [["secret", "rm", "x"], "remove", "backplane secret remove --help"],
  ])("%j suggests the equivalent command", async (argv, name, fix) => {
    const { err } = await backplane(argv);
    expect(err).toContain(
      `Unknown command '${argv.at(argv[0] === "secret" ? 1 : 0)}' (Did you mean ${name}?)`,
    );
    expect(err).toContain(`fix: ${fix}\n`);
  });

  test("suggests a scheme for a URL that has none", async () => {
    const { err } = await backplane(["status", "--url", "127.0.0.1:7421", "--token", "bpa_none"]);
    expect(err).toContain("fix: --url http://127.0.0.1:7421\n");
  });

  test("explains why an input file cannot be read", async () => {
    const { err } = await backplane(["invoke", "x", "--input", "@missing.json"], { cwd: home });
    expect(err).toContain("Cannot read missing.json (--input): the file does not exist.");
  });

  test("prints the error as one JSON line on stdout with --json", async () => {
    const { exit, out, err } = await backplane(["invoke", "--json"]);
    expect(exit).toBe(EXIT.usage);
    expect(out.split("\n")).toHaveLength(2);
    expect(JSON.parse(out)).toMatchObject({ error: { code: "cli.usage", exit_code: 2 } });
    expect(err).toMatch(/^error\[cli\.usage\]/);
  });
});

test.each([["plugin"], ["binding"], []])(
  "prints help for a group without a subcommand, or an error document with --json: %s",
  async (...group) => {
    const plain = await backplane(group);
    expect([plain.exit, plain.err]).toEqual([EXIT.ok, ""]);
    expect(plain.out).toContain("backplane");
    const as_json = await backplane([...group, "--json"]);
    expect(as_json.exit).toBe(EXIT.usage);
    expect(JSON.parse(as_json.out)).toMatchObject({ error: { code: "cli.usage", exit_code: 2 } });
  },
);

describe("without a gateway", () => {
  test("exits with 5 if nothing listens at the URL", async () => {
    const { exit, err } = await backplane(["status", "--url", "http://127.0.0.1:1", "--token", "bpa_x"]);
    expect(exit).toBe(EXIT.unreachable);
    expect(err.split("\n")).toHaveLength(4);
    expect(err).toContain("error[daemon.unreachable]");
    expect(err).toContain("backplane up");
  });

  test("explains why there is no response", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.close();
    await once(server, "close");
    const { err } = await backplane(["status", "--url", url, "--token", "bpa_x"]);
    expect(err).toContain(`No gateway responds at ${url}: no program listens on this port.`);
  });

  test("exits with 5 for a new home and suggests backplane up", async () => {
    const { exit, err } = await backplane(["plugin", "list"]);
    expect(exit).toBe(EXIT.unreachable);
    expect(err).toContain("backplane up");
  });

  test("exits with 4 without a credential", async () => {
    const { exit, err } = await backplane(["plugin", "list", "--url", "http://127.0.0.1:1"]);
    expect(exit).toBe(EXIT.auth);
    expect(err).toContain("error[auth.missing]");
  });

  test("down exits with 5 if no gateway is running", async () => {
    expect((await backplane(["down"])).exit).toBe(EXIT.unreachable);
  });
});

describe("without a terminal", () => {
  test.each([
    [["plugin", "remove", "pkg_1"]],
    [["binding", "remove", "bind_1"]],
    [["secret", "remove", "jira"]],
    [["key", "revoke", "key_1"]],
    [["secret", "set", "jira"]],
  ])("%j exits with 2 on an empty stdin", async (argv) => {
    const started = performance.now();
    const { exit, err } = await backplane([...argv, "--token", "bpa_x", "--url", "http://127.0.0.1:1"]);
    expect(exit).toBe(EXIT.usage);
    expect(err.split("\n")).toHaveLength(4);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("completion", () => {
  test.each(["bash", "zsh", "fish"])("%s completion contains commands and subcommands", async (shell) => {
    const { exit, out } = await backplane(["completion", shell]);
    expect(exit).toBe(EXIT.ok);
    for (const word of ["doctor", "install", "revoke", "tail"]) expect(out).toContain(word);
  });
});
