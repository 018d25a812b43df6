/**
 * A machine with uv but without pip. uv cannot be installed where the tests run, so a program takes its place: it
 * refuses all arguments and variables except those documented for `uv pip install`, and installs with pip.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unwatchedOperation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPackageImporter, createPip, openContentStore, type PythonOptions } from "../../src/index.ts";
import { digestModules, type PipWheel } from "../../src/pypi/fetch-pip.ts";
import { type PythonIndex, sha256Of, startPythonIndex, wheel } from "../support/python-index.ts";

let index: PythonIndex;
let root: string;
let bare_python: string;
let pip_wheel: PipWheel;
let tools: string;
let calls: string;

/** Packs the pip of this machine as the wheel that the index serves. */
const PACK_PIP = `
import os, sys, zipfile, pip
folder = os.path.dirname(pip.__file__)
info = "pip-%s.dist-info" % pip.__version__
name = "pip-%s-py3-none-any.whl" % pip.__version__
with zipfile.ZipFile(os.path.join(sys.argv[1], name), "w") as archive:
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        for file in sorted(files):
            path = os.path.join(base, file)
            archive.write(path, os.path.join("pip", os.path.relpath(path, folder)))
    archive.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: pip\\nVersion: %s\\n" % pip.__version__)
    archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    archive.writestr(info + "/RECORD", "")
print(pip.__version__)
`;

/** Values that differ from run to run are compared by their form. */
const UV = `#!/usr/bin/python3
import json, os, subprocess, sys

FLAGS = ["--no-config", "--no-cache", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
args = sys.argv[1:]
with open("CALLS", "a") as file:
    file.write(json.dumps({"args": args, "requirements": open(args[-1]).read()}) + "\\n")

def check(condition, problem):
    if not condition:
        sys.exit("error: unexpected " + problem)

check(args[:2] == ["pip", "install"] and args[2:10] == FLAGS, "flags: %r" % args)
check(args[10::2] == ["--target", "--python", "--requirement"], "options: %r" % args)
target, python, requirements = args[11::2]
check(os.stat(requirements).st_mode & 0o077 == 0, "mode of the requirements")
env = dict(os.environ)
proxy = env["HTTPS_PROXY"]
for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]:
    check(env.pop(name) == proxy and env.pop(name.lower()) == proxy, "proxy")
check(proxy.startswith("http://127.0.0.1:"), "proxy")
check(env.pop("PATH") == "/nonexistent", "PATH")
check(env.pop("UV_PYTHON_DOWNLOADS") == "never", "UV_PYTHON_DOWNLOADS")
env.pop("TMPDIR")
uv = {name: env[name] for name in env if name.startswith("UV_")}
check(uv == {"UV_NO_PROGRESS": "1", "UV_NATIVE_TLS": "true"}, "variables: %r" % uv)
check("SECRET" not in env, "SECRET")
if os.path.exists("CALLS.foreign"):
    import urllib.request
    try:
        urllib.request.urlopen(open("CALLS.foreign").read())
    except Exception as error:
        sys.exit("  × No solution found when resolving dependencies:\\n  ╰─▶ %s" % error)
command = ["/usr/bin/python3", "-m", "pip", "install", "--isolated", "--no-cache-dir", "--disable-pip-version-check"]
command += ["--quiet", "--proxy", proxy, "--no-deps", "--require-hashes", "--only-binary", ":all:"]
code = subprocess.call(command + ["--no-compile", "--target", target, "--requirement", requirements])
if os.path.exists("CALLS.changes"):
    with open(os.path.join(target, "pip", "__init__.py"), "a") as file:
        file.write("# changed")
open(os.path.join(target, "json.py"), "w").close()
sys.exit(code)
`;

beforeAll(async () => {
  index = await startPythonIndex();
  root = mkdtempSync(join(tmpdir(), "backplane-fetch-pip-"));
  calls = join(root, "calls");
  mkdirSync(join(root, "bin"));
  writeFileSync(join(root, "bin", "uv"), UV.replaceAll("CALLS", calls));
  chmodSync(join(root, "bin", "uv"), 0o755);
  // An environment without pip, whose python3 is that of the system.
  bare_python = join(root, "bare", "bin");
  mkdirSync(bare_python, { recursive: true });
  symlinkSync("/usr/bin/python3", join(bare_python, "python3"));
  writeFileSync(join(root, "bare", "pyvenv.cfg"), "home = /usr/bin\ninclude-system-site-packages = false\n");
  const version = execFileSync("/usr/bin/python3", ["-I", "-c", PACK_PIP, root], { encoding: "utf8" }).trim();
  const file = `pip-${version}-py3-none-any.whl`;
  const bytes = readFileSync(join(root, file));
  index.publish("pip", file, bytes);
  const unpacked = join(root, "unpacked");
  execFileSync("unzip", ["-qq", join(root, file), "pip/*", "-d", unpacked]);
  pip_wheel = { version, sha256: sha256Of(bytes), files: await digestModules(unpacked) };
  const left = wheel({ name: "acme-left", version: "2.0", files: { "acme_left.py": "" } });
  index.publish("acme-left", left.file, left.bytes);
  const demo = wheel({
    name: "acme-demo",
    requires: ["acme-left"],
    scripts: ["acme-demo = acme_left:x"],
    files: { "acme_demo.py": "" },
  });
  index.publish("acme-demo", demo.file, demo.bytes);
});
afterAll(async () => {
  await index.close();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => {
  tools = join(mkdtempSync(join(root, "home-")), "tools");
  for (const file of [calls, `${calls}.foreign`, `${calls}.changes`]) rmSync(file, { force: true });
});

function readCalls(): { args: string[]; requirements: string }[] {
  if (!existsSync(calls)) return [];
  const lines = readFileSync(calls, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as { args: string[]; requirements: string });
}

function createUvPip(options: Partial<PythonOptions> = {}) {
  const env = {
    HOME: root,
    PATH: join(root, "bin"),
    SECRET: "of the gateway",
    UV_NATIVE_TLS: "true",
    UV_INDEX: "https://other.test/simple",
  };
  return createPip({
    path: [bare_python],
    index_url: index.url,
    env,
    tools_folder: tools,
    pip_wheel,
    ...options,
  });
}

async function importDemo(pip: ReturnType<typeof createPip>) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" }, pip });
  try {
    const opened = await importer.open({ kind: "pypi", spec: "acme-demo", args: [], secret_slots: [] });
    const imported = await opened.import(opened.parts[0]!);
    return { digest: imported.digest, lock: join(await store.verifyTree(imported.digest), "pylock.toml") };
  } finally {
    await schemas.close();
  }
}

verifies(
  "source.pypi",
  "installs a Python package with the pip that uv fetches, and the result equals that of an installed pip",
  async () => {
    const env = { HOME: root, PATH: "/usr/bin" };
    const usual = await importDemo(createPip({ path: ["/usr/bin"], index_url: index.url, env }));
    expect(readCalls()).toEqual([]);
    const pip = createUvPip();
    const fetched = await importDemo(pip);
    expect(fetched.digest).toBe(usual.digest);
    expect(readFileSync(fetched.lock, "utf8")).toContain('name = "acme-left"\nversion = "2.0"');
    const [call, ...more] = readCalls();
    expect(more).toEqual([]);
    expect(call!.requirements).toBe(
      `--index-url ${index.url}\npip==${pip_wheel.version} --hash=sha256:${pip_wheel.sha256}\n`,
    );
    expect(call!.args).toContain(join(bare_python, "python3"));
    expect(readdirSync(tools)).toEqual([`pip-${pip_wheel.version}`]);
    expect(readdirSync(join(tools, `pip-${pip_wheel.version}`))).toEqual(["pip"]);
    // A gateway that starts again uses the same folder.
    await createUvPip().findPython(unwatchedOperation());
    expect(readCalls()).toHaveLength(1);
  },
  120_000,
);

verifies(
  "source.pypi",
  "refuses a pip from the index that does not have the pinned hash, and leaves no files",
  async () => {
    const pip = createUvPip({ pip_wheel: { ...pip_wheel, sha256: "0".repeat(64) } });
    await expect(pip.findPython(unwatchedOperation())).rejects.toMatchObject({
      code: "plugin.install_failed",
      message: expect.stringMatching(
        /^There is no pip, and pip \S+ cannot be fetched with uv: uv reported:.*HASH/,
      ),
      fix: expect.stringContaining("apt-get install -y python3-pip"),
    });
    expect(readdirSync(tools)).toEqual([]);
  },
  120_000,
);

test("refuses a fetched pip whose files are not those of the wheel", async () => {
  writeFileSync(`${calls}.changes`, "");
  await expect(createUvPip().findPython(unwatchedOperation())).rejects.toMatchObject({
    code: "plugin.install_failed",
    message: expect.stringContaining("the files that uv installed are not those of the wheel"),
  });
  expect(readdirSync(tools)).toEqual([]);
}, 120_000);

test("fetches pip again if its folder is damaged, and only once for several installations", async () => {
  const folder = join(tools, `pip-${pip_wheel.version}`);
  mkdirSync(join(folder, "pip"), { recursive: true });
  writeFileSync(join(folder, "pip", "__init__.py"), `__version__ = "${pip_wheel.version}"\n`);
  const pip = createUvPip();
  const found = await Promise.all([
    pip.findPython(unwatchedOperation()),
    pip.findPython(unwatchedOperation()),
  ]);
  expect(found[0]).toMatchObject({ folder });
  expect(readCalls()).toHaveLength(1);
  expect(await digestModules(folder)).toBe(pip_wheel.files);
}, 120_000);

test("prevents uv from reaching other hosts than the index, and hides the login of the index", async () => {
  writeFileSync(`${calls}.foreign`, "http://127.0.0.1:9/private");
  const index_url = index.url.replace("://", "://ada:hidden-password@");
  const pip = createUvPip({ index_url });
  await expect(pip.findPython(unwatchedOperation())).rejects.toMatchObject({
    message: expect.stringContaining(
      "uv reported: No solution found when resolving dependencies: HTTP Error 403: Forbidden",
    ),
  });
  const [call] = readCalls();
  expect(call!.requirements).toContain(index_url);
  expect(call!.args.join(" ")).not.toContain("hidden-password");
}, 120_000);

test("stops uv when the installation is cancelled", async () => {
  const stop = new AbortController();
  index.stalls = /^\/simple\/pip/;
  try {
    const finding = createUvPip().findPython({ signal: stop.signal, report() {} });
    finding.catch(() => {});
    await expect.poll(() => index.requests.some((path) => path.startsWith("/simple/pip"))).toBe(true);
    stop.abort();
    await expect(finding).rejects.toMatchObject({ code: "request.cancelled" });
  } finally {
    index.stalls = null;
  }
  expect(readdirSync(tools)).toEqual([]);
}, 120_000);

test("explains how to install pip or uv if neither is installed", async () => {
  const pip = createUvPip({ env: { HOME: root, PATH: bare_python } });
  await expect(pip.findPython(unwatchedOperation())).rejects.toMatchObject({
    code: "plugin.install_failed",
    message: expect.stringMatching(
      /There is no pip of version 22\.2 or later for .+, and no uv on the gateway's PATH/,
    ),
    fix: "apt-get install -y python3-pip, or install uv",
  });
});
