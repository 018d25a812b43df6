/** Imports MCP servers from a local Python index as packages, with the real pip. */
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
import { verifies } from "../../../../../test/support/verifies.ts";
import { selectScript } from "../../../src/import/mcp/python-server.ts";
import {
  createPackageImporter,
  createPip,
  openContentStore,
  type PythonOptions,
} from "../../../src/index.ts";
import type { Pip } from "../../../src/pypi/pip-command.ts";
import { vetReport } from "../../../src/pypi/resolve-wheels.ts";
import {
  type PythonIndex,
  sha256Of,
  startPythonIndex,
  type WheelContent,
  wheel,
} from "../../support/python-index.ts";

let index: PythonIndex;
let canary: Server;
let foreign: string;
let root: string;
/** Shared, because each pip starts one more process to find Python. */
let usual_pip: Pip;
const connections: string[] = [];

beforeAll(async () => {
  index = await startPythonIndex();
  root = mkdtempSync(join(tmpdir(), "backplane-python-server-"));
  usual_pip = createTestPip();
  canary = createServer((_request, response) => void response.writeHead(500).end());
  canary.on("connection", () => connections.push("connection"));
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

function createTestPip(options: Partial<PythonOptions> = {}): Pip {
  const env = { HOME: root, PATH: "/usr/bin" };
  return createPip({ path: ["/usr/bin"], index_url: index.url, env, ...options });
}

function createImporter(options: Partial<PythonOptions> = {}) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const pip = Object.keys(options).length === 0 ? usual_pip : createTestPip(options);
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
  const { store, importer, close } = createImporter(options);
  try {
    const opened = await importer.open({ kind: "pypi", spec, args: [], secret_slots: [], ...source });
    const imported = await opened.import(opened.parts[0]!);
    return { ...imported, tree: await store.verifyTree(imported.digest) };
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

test("selects the script that is named like the package, the only one, or the requested one", () => {
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

/** A source archive whose setup.py writes a file. */
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
    `refuses a dependency from ${label}, reports its path, sends no request and does not run it`,
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
      connections.splice(0);
      index.requests.splice(0);
      await expect(importServer("acme-outer")).rejects.toMatchObject({
        code: "package.dependency_refused",
        message: expect.stringContaining("acme-outer > acme-inner > wanted comes from"),
        details: { source: expect.stringContaining(url()) },
      });
      expect(connections).toEqual([]);
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

test("prevents pip from starting programs and from reaching other hosts while it resolves dependencies", async () => {
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
  connections.splice(0);
  await expect(resolve(`x @ ${foreign}/x-1.0-py3-none-any.whl`)).rejects.toMatchObject({
    refused: [`${foreign}/x-1.0-py3-none-any.whl`],
  });
  expect(connections).toEqual([]);
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
    "a file whose name cannot be decoded",
    { ...ITEM, download_info: { ...ITEM.download_info, url: "https://index/%E0%A4%A.whl" } },
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

verifies(
  "source.pypi",
  "stops downloading an endless file from a Python index, and removes the files of pip",
  async () => {
    publish({ name: "acme-endless", scripts: ["acme-endless = acme_endless:x"] });
    const temporary = mkdtempSync(join(root, "tmp-"));
    index.endless = /^\/files\/acme-endless/;
    try {
      const env = { HOME: root, PATH: "/usr/bin", TMPDIR: temporary };
      await expect(importServer("acme-endless", { env, max_bytes: 1024 * 1024 })).rejects.toMatchObject({
        code: "plugin.install_failed",
        message: expect.stringContaining("sent more than 1048576 bytes"),
      });
    } finally {
      index.endless = null;
    }
    expect(readdirSync(temporary)).toEqual([]);
  },
  60_000,
);

verifies(
  "source.pypi",
  "refuses a wheel with a different hash than the index announces and leaves no files",
  async () => {
    const { file, bytes } = wheel({ name: "acme-wrong-hash", files: { "x.py": "evil" } });
    index.publish("acme-wrong-hash", file, bytes, "0".repeat(64));
    await expect(importServer("acme-wrong-hash")).rejects.toMatchObject({
      code: "package.digest_mismatch",
      details: { file, expected: `sha256:${"0".repeat(64)}`, actual: `sha256:${sha256Of(bytes)}` },
    });
    expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  },
  60_000,
);

test("reports which platforms and which Python a package supports, or that the index does not have it", async () => {
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
    message: expect.stringMatching(/acme-future needs Python >=3\.99, but plugins run with Python 3/),
  });
  await expect(importServer("acme-nowhere")).rejects.toMatchObject({
    code: "plugin.source_invalid",
    message: expect.stringContaining("acme-nowhere is not in the Python index"),
  });
}, 60_000);

test("explains what to install if python3 is missing, is not visible in the sandbox, or has no pip", async () => {
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
    fix: "apt-get install -y python3-pip, or install uv",
  });
});

test.each(["git+https://x/y.git", "./folder", "a b", "x>=1", "https://x/y.whl", "-r", "x[", ""])(
  "refuses the source pypi:%s",
  async (spec) => {
    await expect(importServer(spec)).rejects.toMatchObject({ code: "plugin.source_invalid" });
  },
);

/** The arguments of all processes of pip, which every user of the machine can read. */
function argumentsOfPip(): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(join("/proc", pid, "cmdline"), "utf8");
      } catch {
        return "";
      }
    })
    .filter((text) => text.includes("backplane-pip-"));
}

test("hides the login of the index from other users, and kills pip when the installation is cancelled", async () => {
  publishDemo();
  index.stalls = /acme-left/;
  const { importer, close } = createImporter({
    index_url: index.url.replace("://", "://ada:hidden-password@"),
  });
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
  expect(index.logins).toContain(`Basic ${Buffer.from("ada:hidden-password").toString("base64")}`);
  expect(argumentsOfPip().join()).toContain("index.txt");
  expect(argumentsOfPip().join()).not.toContain("hidden-password");
  stop.abort();
  await expect(importing).rejects.toMatchObject({ code: "request.cancelled" });
  index.stalls = null;
  expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  await close();
}, 60_000);
