/** MCP servers from the Python index as packages, with the real pip and a local index. */
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
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type InstallationSource, unwatchedOperation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { UNPACK_LIMITS } from "../src/archive/limits.ts";
import { selectScript } from "../src/import/mcp/python-server.ts";
import { createPackageImporter, createPip, openContentStore, type PythonOptions } from "../src/index.ts";
import { downloadWheels, vetReport } from "../src/pypi/resolve-wheels.ts";
import { unpackWheel } from "../src/pypi/unpack-wheel.ts";
import { type PythonIndex, sha256Of, startPythonIndex, type WheelContent, wheel } from "./python-index.ts";
import { zip } from "./zip-bytes.ts";

let index: PythonIndex;
let canary: Server;
let foreign: string;
let root: string;
const reached: string[] = [];

beforeAll(async () => {
  index = await startPythonIndex();
  root = mkdtempSync(join(tmpdir(), "backplane-python-server-"));
  canary = createServer((_request, response) => void response.writeHead(500).end());
  canary.on("connection", () => reached.push("connection"));
  await new Promise<void>((resolve) => canary.listen(0, "127.0.0.1", resolve));
  foreign = `http://127.0.0.1:${(canary.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await index.close();
  canary.closeAllConnections();
  await new Promise((resolve) => canary.close(resolve));
  rmSync(root, { recursive: true, force: true });
});

function publish(content: WheelContent): string {
  const { file, bytes } = wheel(content);
  index.publish(content.name, file, bytes);
  return content.name;
}

function open(options: Partial<PythonOptions> = {}) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const env = { HOME: root, PATH: "/usr/bin" };
  const pip = createPip({ path: ["/usr/bin"], index_url: index.url, env, ...options });
  const host = { os: "linux", arch: "amd64" } as const;
  return {
    store,
    importer: createPackageImporter({ store, schemas, host, pip }),
    close: () => schemas.close(),
  };
}

async function importServer(
  spec: string,
  options: Partial<PythonOptions> = {},
  source: Partial<Extract<InstallationSource, { kind: "pypi" }>> = {},
) {
  const { store, importer, close } = open(options);
  try {
    const opened = await importer.open({ kind: "pypi", spec, args: [], secret_slots: [], ...source });
    const imported = await opened.import(opened.parts[0]!);
    return { ...imported, tree: await store.verified(imported.digest) };
  } finally {
    await close();
  }
}

const PRINTS = {
  "acme_demo/__init__.py": "import acme_left, sys\ndef main():\n    print(acme_left.WORD, sys.argv[1:])\n",
};

function publishDemo(): void {
  publish({ name: "acme-left", version: "2.0", files: { "acme_left.py": 'WORD = "left"\n' } });
  publish({
    name: "acme-demo",
    version: "1.2.0",
    requires: ["acme_left>=1"],
    scripts: ["acme-demo = acme_demo:main", "acme-other = acme_demo:other"],
    metadata: ["Summary: Says a word", "License: MIT"],
    files: PRINTS,
  });
}

verifies(
  "source.pypi",
  "packs the locked wheels of a server and its dependencies, with a reproducible digest",
  async () => {
    publishDemo();
    const first = await importServer("Acme_Demo", {}, { secret_slots: ["api_key"] });
    expect(first).toMatchObject({
      origin: "pypi",
      manifest: {
        package_id: "pypi/acme-demo",
        version: "1.2.0",
        description: "Says a word",
        license: "MIT",
        source: "pypi:acme-demo==1.2.0",
        runtime: {
          protocol: "mcp.stdio",
          entrypoint: ["python3", "-S", "./start.py"],
          permissions: { network: "egress", filesystem: "scratch", secret_slots: ["api_key"] },
        },
      },
    });
    const lock = readFileSync(join(first.tree, "pylock.toml"), "utf8");
    expect(lock).toContain('name = "acme-left"\nversion = "2.0"');
    expect(lock).toMatch(
      /acme_demo-1\.2\.0-py3-none-any\.whl", url = "http:.+, hashes = \{ sha256 = "[0-9a-f]{64}"/,
    );
    expect(readdirSync(first.tree).sort()).toEqual([
      "pylock.toml",
      "site-packages",
      "start.py",
      "vai-plugin.toml",
    ]);
    const output = execFileSync("/usr/bin/python3", ["-S", "./start.py", "a"], {
      cwd: first.tree,
      encoding: "utf8",
    });
    expect(output).toBe("left ['a']\n");
    expect((await importServer("acme-demo==1.2.0", {}, { secret_slots: ["api_key"] })).digest).toBe(
      first.digest,
    );
  },
  60_000,
);

test("starts the script that is named like the package, the only one, or the one that is given", () => {
  const one = { module: "acme", attribute: "one" };
  const two = { module: "acme", attribute: "two" };
  const both = new Map([
    ["one", one],
    ["two", two],
  ]);
  expect(selectScript("two", both)).toBe(two);
  expect(selectScript("acme", new Map([["one", one]]))).toBe(one);
  expect(selectScript("acme", both, "one")).toBe(one);
  expect(() => selectScript("acme", both)).toThrow("it has several programs: one, two");
  expect(() => selectScript("acme", both, "three")).toThrow("it has no program three");
  expect(() => selectScript("acme", new Map())).toThrow("it has no program to start");
});

/** A source archive whose setup.py leaves a file. */
function sourceArchive(name: string, ran: string): Buffer {
  const dir = join(root, "sources", `${name}-1.0`);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "setup.py"), `open(${JSON.stringify(ran)}, "w").close()\n`);
  return execFileSync("tar", ["czf", "-", "-C", join(root, "sources"), `${name}-1.0`]);
}

const SOURCES: [what: string, url: () => string][] = [
  ["git", () => `git+${foreign}/wanted.git`],
  [
    "a source archive on the host of the index",
    () => index.url.replace("simple", "files/wanted/wanted-1.0.tar.gz"),
  ],
];

for (const [label, url] of SOURCES) {
  verifies(
    "source.pypi",
    `refuses a dependency from ${label} with its path, without a request and without running it`,
    async () => {
      const ran = join(root, "setup-ran");
      index.publish("wanted", "wanted-1.0.tar.gz", sourceArchive("wanted", ran));
      publish({ name: "acme-inner", requires: [`wanted @ ${url()}`], files: { "acme_inner.py": "" } });
      publish({
        name: "acme-outer",
        requires: ["acme-inner"],
        scripts: ["acme-outer = acme_inner:x"],
        files: {},
      });
      reached.splice(0);
      index.requests.splice(0);
      await expect(importServer("acme-outer")).rejects.toMatchObject({
        code: "package.dependency_refused",
        message: expect.stringContaining("acme-outer > acme-inner > wanted comes from"),
        details: { source: expect.stringContaining(url()) },
      });
      expect(reached).toEqual([]);
      expect(index.requests.filter((path) => path.includes("wanted"))).toEqual([]);
      expect(existsSync(ran)).toBe(false);
    },
    60_000,
  );
}

verifies(
  "source.pypi",
  "runs no code of a source archive and explains that there is no wheel",
  async () => {
    const ran = join(root, "sdist-ran");
    index.publish("acme-source", "acme-source-1.0.tar.gz", sourceArchive("acme-source", ran));
    await expect(importServer("acme-source")).rejects.toMatchObject({
      code: "package.invalid",
      message: expect.stringContaining("acme-source is published only as a source archive"),
    });
    expect(existsSync(ran)).toBe(false);
  },
  60_000,
);

/** Programs that pip would start, and hosts that it would reach, if the check of dependencies did not exist. */
test("starts no program and reaches no other host while it resolves", async () => {
  const pip = createPip({ path: ["/usr/bin"], index_url: index.url, env: { HOME: root } });
  const dir = mkdtempSync(join(root, "pip-"));
  const run = { operation: unwatchedOperation(), step: "resolve", message: "" } as const;
  const resolve = (requirement: string) =>
    pip.run(
      ["install", "--dry-run", "--ignore-installed", "--report", join(dir, "report"), requirement],
      dir,
      run,
    );
  const ran = join(root, "requested-ran");
  sourceArchive("requested", ran);
  await expect(resolve(`requested @ file://${join(root, "sources", "requested-1.0")}`)).rejects.toMatchObject(
    {
      log: expect.stringContaining("no program may be started"),
    },
  );
  expect(existsSync(ran)).toBe(false);
  reached.splice(0);
  await expect(resolve(`x @ ${foreign}/x-1.0-py3-none-any.whl`)).rejects.toMatchObject({
    refused: [`${foreign}/x-1.0-py3-none-any.whl`],
  });
  expect(reached).toEqual([]);
}, 60_000);

const ITEM = {
  download_info: {
    url: "https://index/x-1.0-py3-none-any.whl",
    archive_info: { hashes: { sha256: "a".repeat(64) } },
  },
  metadata: { name: "x", version: "1.0" },
};

test.each([
  ["a direct reference", { ...ITEM, is_direct: true }],
  [
    "a file on another host",
    { ...ITEM, download_info: { ...ITEM.download_info, url: "https://other/x-1.0-py3-none-any.whl" } },
  ],
  [
    "a source archive",
    { ...ITEM, download_info: { ...ITEM.download_info, url: "https://index/x-1.0.tar.gz" } },
  ],
  [
    "a file without a SHA-256",
    { ...ITEM, download_info: { ...ITEM.download_info, archive_info: { hashes: {} } } },
  ],
])("refuses %s in the report of pip", (_label, item) => {
  const root_item = { ...ITEM, metadata: { name: "root", version: "1.0", requires_dist: ["X (>=1)"] } };
  const origins = new Set(["https://index"]);
  expect(vetReport([root_item, ITEM], "root", origins)).toHaveLength(2);
  expect(() => vetReport([root_item, item], "root", origins)).toThrow("root > x comes from");
});

const HOSTILE: [what: string, rule: string, content: WheelContent][] = [
  ["a path out of the package", "path-traversal", { name: "acme", files: { "../../escaped.py": "" } }],
  [
    "content that RECORD does not describe",
    "record",
    {
      name: "acme",
      files: { "x.py": "evil" },
      record: (lines) => lines.map((line) => line.replace(/^(x\.py,sha256=)./, "$1_")),
    },
  ],
  [
    "a file that RECORD does not list",
    "record",
    {
      name: "acme",
      files: { "x.py": "evil" },
      record: (lines) => lines.filter((line) => !line.startsWith("x.py")),
    },
  ],
  [
    "a missing file that RECORD lists",
    "record",
    { name: "acme", record: (lines) => [...lines, "gone.py,sha256=x,1"] },
  ],
  ["two descriptions of one file", "record", { name: "acme", record: (lines) => [...lines, lines[0]!] }],
  ["two folders of metadata", "record", { name: "acme", files: { "other-1.0.dist-info/METADATA": "" } }],
  ["an unknown part", "wheel-data", { name: "acme", files: { "acme-1.0.0.data/etc/passwd": "" } }],
];

verifies(
  "source.pypi",
  "refuses a wheel with content that its RECORD or the rules for archives do not allow",
  async () => {
    for (const [label, rule, content] of HOSTILE) {
      const folder = mkdtempSync(join(root, "hostile-"));
      const { bytes } = wheel(content);
      writeFileSync(join(folder, "acme.whl"), bytes);
      const unpacking = unpackWheel(join(folder, "acme.whl"), join(folder, "tree"), UNPACK_LIMITS);
      await expect(unpacking, label).rejects.toMatchObject({ code: "package.unsafe", details: { rule } });
    }
    const folder = mkdtempSync(join(root, "bomb-"));
    const zeros = { name: "zeros", body: Buffer.alloc(16 * 1024 * 1024), mode: 0o100644 };
    writeFileSync(join(folder, "acme.whl"), zip([zeros]));
    await expect(
      unpackWheel(join(folder, "acme.whl"), join(folder, "tree"), UNPACK_LIMITS),
    ).rejects.toMatchObject({ details: { rule: "bomb" } });
    expect(readdirSync(folder)).toEqual(["acme.whl"]);
  },
);

verifies(
  "source.pypi",
  "refuses a wheel with another hash than the index announces and leaves no files",
  async () => {
    const { file, bytes } = wheel({ name: "acme-wrong-hash", files: { "x.py": "evil" } });
    index.publish("acme-wrong-hash", file, bytes, "0".repeat(64));
    await expect(importServer("acme-wrong-hash")).rejects.toMatchObject({
      code: "package.digest_mismatch",
      details: { file },
    });
    expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  },
  60_000,
);

test("refuses a downloaded file with another hash than the lock", async () => {
  const { file, bytes } = wheel({ name: "acme" });
  const pip = {
    ...createPip({ path: [], index_url: index.url }),
    run: async (_args: readonly string[], dir: string) => writeFileSync(join(dir, "wheels", file), bytes),
  };
  const locked = {
    name: "acme",
    version: "1.0.0",
    file,
    url: "",
    sha256: sha256Of(bytes),
    summary: undefined,
    license: undefined,
  };
  const download = (sha256: string) =>
    downloadWheels(pip, [{ ...locked, sha256 }], mkdtempSync(join(root, "lock-")), unwatchedOperation());
  await expect(download(locked.sha256)).resolves.toContain("wheels");
  await expect(download("0".repeat(64))).rejects.toMatchObject({
    code: "package.digest_mismatch",
  });
});

test("says which platforms and which Python a package supports", async () => {
  publish({ name: "acme-windows", tag: "cp311-cp311-win_amd64" });
  await expect(importServer("acme-windows")).rejects.toMatchObject({
    code: "package.platform",
    message: expect.stringMatching(
      /acme-windows has no wheel for Python 3\.\d+ on linux .+ cp311-cp311-win_amd64/,
    ),
  });
  publish({ name: "acme-future", metadata: ["Requires-Python: >=3.99"] });
  await expect(importServer("acme-future")).rejects.toMatchObject({
    code: "package.platform",
    message: expect.stringMatching(/acme-future needs Python >=3\.99, and plugins run with Python 3/),
  });
  await expect(importServer("acme-nowhere")).rejects.toMatchObject({
    code: "plugin.source_invalid",
    message: expect.stringContaining("acme-nowhere is not in the Python index"),
  });
}, 60_000);

test("says what to install without python3, with a python3 outside the sandbox, and without pip", async () => {
  const empty = join(root, "empty");
  mkdirSync(empty);
  await expect(importServer("acme-demo", { path: [empty] })).rejects.toMatchObject({
    code: "plugin.install_failed",
    message: expect.stringContaining(`There is no python3 in ${empty}`),
    fix: "apt-get install -y python3 python3-pip",
  });
  const outside = join(root, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "real"), "#!/bin/sh\nexit 1\n");
  chmodSync(join(outside, "real"), 0o755);
  symlinkSync("real", join(outside, "python3"));
  await expect(importServer("acme-demo", { path: [outside] })).rejects.toMatchObject({
    message: expect.stringContaining("not visible in the sandbox"),
  });
  const bare = join(root, "bare");
  mkdirSync(bare);
  // A program below /usr that is not Python, so that it has no pip.
  symlinkSync("/usr/bin/false", join(bare, "python3"));
  await expect(importServer("acme-demo", { path: [bare], env: { PATH: empty } })).rejects.toMatchObject({
    message: expect.stringContaining("There is no pip of version 22.2 or later"),
    fix: "apt-get install -y python3-pip",
  });
});

test.each(["git+https://x/y.git", "./folder", "a b", "x>=1", "https://x/y.whl", "-r", "x[", ""])(
  "refuses the source pypi:%s",
  async (spec) => {
    await expect(importServer(spec)).rejects.toMatchObject({ code: "plugin.source_invalid" });
  },
);

test("ends pip when the installation is cancelled", async () => {
  publishDemo();
  index.stalls = /acme-left/;
  const { importer, close } = open();
  const stop = new AbortController();
  const operation = { signal: stop.signal, report() {} };
  const opened = await importer.open(
    { kind: "pypi", spec: "acme-demo", args: [], secret_slots: [] },
    { operation },
  );
  const importing = opened.import(opened.parts[0]!);
  importing.catch(() => {});
  await expect
    .poll(() => index.requests.some((path) => path.includes("acme-left")), { timeout: 20_000 })
    .toBe(true);
  stop.abort();
  await expect(importing).rejects.toMatchObject({ code: "request.cancelled" });
  index.stalls = null;
  expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  await close();
}, 60_000);
