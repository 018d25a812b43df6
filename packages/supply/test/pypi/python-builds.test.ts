/**
 * Python packages that are built from source archives, with the real pip and a local index. Functions take the place
 * of the sandbox and write files that the code of an archive could write; `packages/runner/test/runner` tests the
 * real sandbox.
 */

import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type OpenOptions, type SourceBuilds, unwatchedOperation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPackageImporter, createPip, openContentStore } from "../../src/index.ts";
import { AllowedBuilds } from "../../src/pypi/allowed-builds.ts";
import { createWheelBuilder } from "../../src/pypi/build-wheels.ts";
import { type Pip, PipFailure } from "../../src/pypi/pip-command.ts";
import { isBuildRequirement } from "../../src/pypi/requirement.ts";
import { resolveWheels } from "../../src/pypi/resolve-wheels.ts";
import {
  type PythonIndex,
  type SdistContent,
  sdist,
  selfBuildingSource,
  sha256Of,
  startPythonIndex,
  type WheelContent,
  wheel,
} from "../support/python-index.ts";

type BuildRequest = Parameters<SourceBuilds["run"]>[0];

let index: PythonIndex;
let root: string;
/** Shared, because each pip starts one more process to find Python. */
let pip: Pip;

beforeAll(async () => {
  index = await startPythonIndex();
  root = mkdtempSync(join(tmpdir(), "backplane-python-builds-"));
  pip = createPip({ path: ["/usr/bin"], index_url: index.url, env: { HOME: root, PATH: "/usr/bin" } });
});
afterAll(async () => {
  await index.close();
  rmSync(root, { recursive: true, force: true });
});

function publish(content: WheelContent): void {
  const { file, bytes } = wheel(content);
  index.publish(content.name, file, bytes);
}

function publishSource(content: SdistContent, sha256?: string): Buffer {
  const { file, bytes } = sdist(content);
  index.publish(content.name, file, bytes, sha256);
  return bytes;
}

/** A build that produces this wheel. */
const fakeBuild = (content: WheelContent) => (request: BuildRequest) => {
  const { file, bytes } = wheel(content);
  writeFileSync(join(request.folder, "out", file), bytes);
};

async function importServer(
  spec: string,
  run: (request: BuildRequest) => void,
  allow_builds: OpenOptions["allow_builds"] = [spec],
) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const builds: SourceBuilds = { run: async (request) => run(request) };
  const host = { os: "linux", arch: "amd64" } as const;
  const importer = createPackageImporter({ store, schemas, host, pip, builds });
  try {
    const opened = await importer.open({ kind: "pypi", spec, args: [], secret_slots: [] }, { allow_builds });
    const imported = await opened.import(opened.parts[0]!);
    opened.assertAllowedFound();
    return { ...imported, tree: await store.verifyTree(imported.digest) };
  } finally {
    await schemas.close();
  }
}

/** Code that writes a file as soon as a build backend or setup.py of the archive is run. */
function markerCode(ran: string): Record<string, string> {
  const code = `open(${JSON.stringify(ran)}, "w").close()\n`;
  return { "setup.py": code, "own_backend.py": code };
}

verifies(
  "source.pypi",
  "refuses a package without a wheel and suggests the command that builds it, without running its code",
  async () => {
    const ran = join(root, "refused-ran");
    const { name, files } = selfBuildingSource({ name: "acme-refused" });
    publishSource({ name, files: { ...files, ...markerCode(ran) } });
    publish({ name: "acme-needs-refused", requires: ["acme_refused"], scripts: ["x = x:y"] });
    await expect(importServer("acme-needs-refused", () => {}, [])).rejects.toMatchObject({
      code: "package.invalid",
      message: expect.stringMatching(
        /^acme.refused is published only as a source archive\. Building it runs/,
      ),
      fix: expect.stringContaining(
        "backplane plugin install pypi:acme-needs-refused --allow-build acme-refused",
      ),
    });
    expect(existsSync(ran)).toBe(false);
  },
  60_000,
);

verifies(
  "source.pypi",
  "locks the archive and its build requirements, and runs none of its code outside the sandbox",
  async () => {
    const ran = join(root, "allowed-ran");
    publish({
      name: "acme-tool",
      version: "3.0",
      requires: ["acme-tool-part"],
      files: { "acme_tool.py": "" },
    });
    publish({ name: "acme-tool-part", version: "0.1", scripts: ["acme-part = acme_part:x.run"] });
    const files = {
      ...selfBuildingSource({ name: "acme-built" }).files,
      ...markerCode(ran),
      "pyproject.toml":
        '[build-system]\nrequires = ["acme-tool (>=2)"]\nbuild-backend = "acme_tool:backend"\n',
    };
    const bytes = publishSource({ name: "acme-built", version: "1.4", files });
    publish({ name: "acme-server", requires: ["Acme_Built>=1"], scripts: ["acme-server = acme_built:main"] });
    const requests: BuildRequest[] = [];
    const run = (request: BuildRequest) => {
      requests.push(request);
      const { folder } = request;
      expect(readdirSync(folder).sort()).toEqual(["env", "out", "source"]);
      expect(readFileSync(join(folder, "source", "setup.py"), "utf8")).toContain(ran);
      expect(readdirSync(join(folder, "env", "site-packages"))).toContain("acme_tool.py");
      expect(readFileSync(join(folder, "env", "bin", "acme-part"), "utf8")).toContain("sys.exit(x.run())");
      fakeBuild({
        name: "acme-built",
        version: "1.4",
        files: { "acme_built.py": "def main(): print('built')\n" },
      })(request);
    };
    const imported = await importServer("acme-server", run, ["acme.BUILT"]);
    expect(existsSync(ran)).toBe(false);
    expect(requests).toMatchObject([
      {
        name: "acme-built 1.4",
        python: "/usr/bin/python3",
        backend: { module: "acme_tool", attribute: "backend", path: [] },
        requirements_known: false,
      },
    ]);
    expect(imported.manifest).toMatchObject({
      version: "1.0.0+built.acme-built",
      source: "pypi:acme-server==1.0.0; built from source: acme-built==1.4",
    });
    const lock = readFileSync(join(imported.tree, "pylock.toml"), "utf8");
    expect(lock).toMatch(
      new RegExp(
        `name = "acme-built"\nversion = "1.4"\nindex = .+\nsdist = \\{ name = "acme_built-1.4.tar.gz", url = "http:.+, hashes = \\{ sha256 = "${sha256Of(bytes)}" \\} \\}\n\n\\[packages.tool.backplane\\]\nbuild-requires = \\[\n.+acme_tool.+3\\.0.+\n`,
      ),
    );
    const output = execFileSync("/usr/bin/python3", ["-S", "./start.py"], {
      cwd: imported.tree,
      encoding: "utf8",
    });
    expect(output).toBe("built\n");
    expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  },
  60_000,
);

verifies(
  "source.pypi",
  "installs further requirements of a backend in a folder that the backend had no access to",
  async () => {
    publish({ name: "acme-late", files: { "acme_late.py": "" } });
    publishSource(selfBuildingSource({ name: "acme-asks" }));
    const outside = join(root, "asks-outside");
    mkdirSync(outside);
    const folders: string[] = [];
    await importServer("acme-asks", (request) => {
      const { folder, requirements_known } = request;
      folders.push(folder);
      if (requirements_known) {
        expect(readdirSync(join(folder, "env", "site-packages"))).toContain("acme_late.py");
        return fakeBuild({ name: "acme-asks", scripts: ["acme-asks = x:y"] })(request);
      }
      rmSync(join(folder, "env"), { recursive: true });
      symlinkSync(outside, join(folder, "env"));
      writeFileSync(join(folder, "out", "requires.json"), '["acme-late"]');
    });
    expect(new Set(folders).size).toBe(2);
    expect(readdirSync(outside)).toEqual([]);
  },
  60_000,
);

/** A pip that accepts no wheel of this archive, as the real one does with a wheel for another platform. */
function createPipNeedingArchive(
  { file, bytes }: { file: string; bytes: Buffer },
  { url = `${index.url}/${file}`, sha256 = sha256Of(bytes) } = {},
): Pip {
  return {
    ...pip,
    findPython: async () => ({ version: "3.11", python: "/usr/bin/python3" }),
    async run(_args, _cwd, { sources }) {
      writeFileSync(sources!.into!, bytes);
      throw new PipFailure("pip failed", "", { source: { name: "acme-hostile", file, url, sha256 } });
    },
  };
}

const HOSTILE = sdist(selfBuildingSource({ name: "acme-hostile" }));

async function resolveHostile(with_pip: Pip, run: (request: BuildRequest) => void) {
  const dir = mkdtempSync(join(root, "hostile-"));
  const allowed = new AllowedBuilds(["acme-hostile"]);
  const builds: SourceBuilds = { run: async (request) => run(request) };
  const operation = unwatchedOperation();
  const builder = await createWheelBuilder({
    pip: with_pip,
    builds,
    allowed,
    spec: "acme-hostile",
    dir,
    operation,
  });
  const wanted = { name: "acme-hostile", requirements: ["acme-hostile"], spec: "acme-hostile" };
  return await resolveWheels(with_pip, wanted, dir, operation, builder);
}

const GOOD: WheelContent = { name: "acme-hostile", scripts: ["acme-hostile = x:y"] };

/** Results that the code of an archive can leave in its folder. */
const OUTPUTS: [what: string, problem: string, run: (request: BuildRequest) => void][] = [
  ["no wheel", "its build produced 0 wheels", () => {}],
  ["a wheel of another package", "its wheel is acme-other 1.0.0", fakeBuild({ ...GOOD, name: "acme-other" })],
  ["a wheel of another version", "its wheel is acme-hostile 9.9", fakeBuild({ ...GOOD, version: "9.9" })],
  [
    "a wheel whose metadata contains another version",
    "its wheel is acme-hostile 9.9",
    ({ folder }) => {
      const { bytes } = wheel({ ...GOOD, version: "9.9" });
      writeFileSync(join(folder, "out", "acme_hostile-1.0.0-py3-none-any.whl"), bytes);
    },
  ],
  [
    "a wheel with a path out of the package",
    "its path contains",
    fakeBuild({ ...GOOD, files: { "../../escaped.py": "" } }),
  ],
  [
    "a wheel whose RECORD is incorrect",
    "RECORD does not list it",
    fakeBuild({
      ...GOOD,
      files: { "x.py": "" },
      record: (lines) => lines.filter((line) => !line.startsWith("x")),
    }),
  ],
  [
    "a link to a file of the host",
    "its wheel is not a regular file",
    ({ folder }) => symlinkSync("/etc/passwd", join(folder, "out", "acme_hostile-1.0.0-py3-none-any.whl")),
  ],
  [
    "a pipe that is never written",
    "its wheel is not a regular file",
    ({ folder }) => void execFileSync("mkfifo", [join(folder, "out", "acme_hostile-1.0.0-py3-none-any.whl")]),
  ],
  [
    "a folder that is a link",
    "its build produced 0 wheels",
    ({ folder }) => {
      const link_target = mkdtempSync(join(root, "elsewhere-"));
      renameSync(join(folder, "out"), join(link_target, "out"));
      fakeBuild(GOOD)({ folder: link_target } as BuildRequest);
      symlinkSync(join(link_target, "out"), join(folder, "out"));
    },
  ],
  [
    "two wheels",
    "its build produced 2 wheels",
    (request) => {
      fakeBuild(GOOD)(request);
      fakeBuild({ ...GOOD, version: "2.0" })(request);
    },
  ],
  [
    "a wheel for another platform",
    "pip does not accept the wheel",
    fakeBuild({ ...GOOD, tag: "cp311-cp311-win_amd64" }),
  ],
  [
    "requirements that are not a list",
    "requests invalid requirements",
    ({ folder }) => writeFileSync(join(folder, "out", "requires.json"), "{}"),
  ],
  [
    "requirements in a link",
    "requests invalid requirements",
    ({ folder }) => symlinkSync("/etc/passwd", join(folder, "out", "requires.json")),
  ],
  [
    "a requirement by URL",
    "which is not a package of the Python index",
    ({ folder }) =>
      writeFileSync(join(folder, "out", "requires.json"), JSON.stringify([`x @ ${index.url}/x.tar.gz`])),
  ],
];

verifies("source.pypi", "refuses the output of a hostile build", async () => {
  for (const [label, problem, run] of OUTPUTS) {
    const resolving = resolveHostile(createPipNeedingArchive(HOSTILE), run);
    await expect(resolving, label).rejects.toMatchObject({ message: expect.stringContaining(problem) });
  }
});

verifies("source.pypi", "builds only the archive that the index announces", async () => {
  const ran: BuildRequest[] = [];
  const run = (request: BuildRequest) => void ran.push(request);
  const pip_with_other_host = createPipNeedingArchive(HOSTILE, {
    url: "https://other.test/acme_hostile-1.0.0.tar.gz",
  });
  await expect(resolveHostile(pip_with_other_host, run)).rejects.toMatchObject({
    code: "package.dependency_refused",
  });
  const changed = createPipNeedingArchive(HOSTILE, { sha256: "0".repeat(64) });
  await expect(resolveHostile(changed, run)).rejects.toMatchObject({ code: "package.digest_mismatch" });
  expect(ran).toEqual([]);
});

verifies(
  "source.pypi",
  "unpacks a source archive without pip, and refuses one with a link out of its folder",
  async () => {
    const outside = join(root, "unpacked-outside");
    mkdirSync(outside);
    const { name, files } = selfBuildingSource({ name: "acme-links" });
    publishSource({
      name,
      files,
      entries: [
        { name: "acme_links-1.0.0/way", type: "2", link: outside },
        { name: "acme_links-1.0.0/way/escaped", body: "x" },
      ],
    });
    await expect(importServer("acme-links", () => {})).rejects.toMatchObject({ code: "package.unsafe" });
    expect(readdirSync(outside)).toEqual([]);
  },
  60_000,
);

test("prevents pip from unpacking a source archive", async () => {
  const outside = join(root, "pip-outside");
  mkdirSync(outside);
  const { bytes } = sdist({
    name: "acme-direct",
    files: { "setup.py": "" },
    entries: [
      { name: "acme_direct-1.0.0/way", type: "2", link: outside },
      { name: "acme_direct-1.0.0/way/escaped", body: "x" },
    ],
  });
  const dir = mkdtempSync(join(root, "direct-"));
  const file = join(dir, "acme_direct-1.0.0.tar.gz");
  writeFileSync(file, bytes);
  const run = { operation: unwatchedOperation(), step: "resolve", message: "" } as const;
  const args = ["install", "--dry-run", "--report", join(dir, "report"), `acme-direct @ file://${file}`];
  await expect(pip.run(args, dir, run)).rejects.toMatchObject({
    log: expect.stringContaining("no source archive may be unpacked"),
  });
  expect(readdirSync(outside)).toEqual([]);
}, 60_000);

verifies(
  "source.pypi",
  "refuses an archive whose hash differs from the index or is missing there",
  async () => {
    const ran: string[] = [];
    const bytes = publishSource(selfBuildingSource({ name: "acme-changed" }), "0".repeat(64));
    await expect(importServer("acme-changed", () => void ran.push("changed"))).rejects.toMatchObject({
      code: "package.digest_mismatch",
      details: {
        file: "acme_changed-1.0.0.tar.gz",
        expected: `sha256:${"0".repeat(64)}`,
        actual: `sha256:${sha256Of(bytes)}`,
      },
    });
    publishSource(selfBuildingSource({ name: "acme-unhashed" }), "");
    await expect(importServer("acme-unhashed", () => void ran.push("unhashed"))).rejects.toMatchObject({
      code: "package.dependency_refused",
      message: expect.stringContaining("a file with a SHA-256"),
    });
    expect(ran).toEqual([]);
  },
  60_000,
);

const REQUIREMENTS = [
  "--index-url=http://x",
  "-r/etc/passwd",
  "./local",
  "/etc",
  "git+https://x/y",
  "x @ file:///x",
];

test("refuses build requirements that are not packages of the index, and an archive that requires itself", async () => {
  for (const each of REQUIREMENTS) expect(isBuildRequirement(each), each).toBe(false);
  for (const each of [
    "wheel",
    "a[b,c]>=1,<2",
    "a (==1.*)",
    "a>=1; python_version < '3.8' and os_name == \"nt\"",
  ])
    expect(isBuildRequirement(each), each).toBe(true);
  const requires = (text: string) => `[build-system]\nrequires = ["${text}"]\nbuild-backend = "x"\n`;
  const resolve = (pyproject: string) =>
    resolveHostile(
      createPipNeedingArchive(sdist({ name: "acme-hostile", files: { "pyproject.toml": pyproject } })),
      () => {},
    );
  await expect(resolve(requires("-r /etc/passwd"))).rejects.toMatchObject({
    code: "package.dependency_refused",
    message: expect.stringContaining('acme-hostile > build requirement comes from "-r /etc/passwd"'),
  });
  await expect(resolve(requires("acme-hostile"))).rejects.toMatchObject({
    message: expect.stringContaining("its build requires the package itself"),
  });
  await expect(resolve("[build-system\n")).rejects.toMatchObject({
    message: expect.stringContaining("without a valid build-system"),
  });
  // A build requirement also needs a wheel, or permission from the operator to be built.
  publishSource({ name: "acme-outer", files: { "pyproject.toml": requires("acme-tool-source") } });
  publishSource(selfBuildingSource({ name: "acme-tool-source" }));
  await expect(importServer("acme-outer", () => {})).rejects.toMatchObject({
    fix: expect.stringContaining("--allow-build acme-outer --allow-build acme-tool-source"),
  });
}, 120_000);

test("does not build a package that has a wheel, and refuses allowed names that need no build", async () => {
  publishSource(selfBuildingSource({ name: "acme-both" }));
  publish({ name: "acme-both", scripts: ["x = x:y"] });
  await expect(importServer("acme-both", () => expect.fail("it was built"))).rejects.toMatchObject({
    code: "plugin.source_invalid",
    message: "A build of acme-both is allowed, but it is not a dependency that has to be built.",
    fix: "Leave --allow-build out: every package has a wheel.",
  });
  await expect(importServer("acme-both", () => {}, ["acme-both==1"])).rejects.toMatchObject({
    code: "plugin.source_invalid",
  });
}, 60_000);

test("reports which version the index offers, even of a package without a wheel, and runs none of its code", async () => {
  const ran = join(root, "inspected-ran");
  const { name, files } = selfBuildingSource({ name: "acme-shown" });
  publishSource({ name, version: "2.0.post1", files: { ...files, ...markerCode(ran) } });
  publish({ name: "acme-shown-wheel", version: "1.5rc1" });
  publish({ name: "acme-shown-wheel", version: "1.4", requires: ["acme-nowhere"] });
  const schemas = shareSchemas();
  const store = openContentStore(join(root, "blobs"));
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" }, pip });
  const inspect = (spec: string) => importer.inspect({ kind: "pypi", spec, args: [], secret_slots: [] });
  index.requests.splice(0);
  expect(await inspect("acme_shown")).toMatchObject({
    packages: [
      { package_id: "pypi/acme-shown", version: "2.0.0+post1", source: "pypi:acme-shown==2.0.post1" },
    ],
    notes: [expect.stringContaining("backplane plugin install pypi:acme_shown --allow-build acme-shown")],
  });
  expect(index.requests.filter((path) => path.endsWith(".tar.gz"))).toEqual([]);
  expect(existsSync(ran)).toBe(false);
  expect(await inspect("acme-shown-wheel")).toMatchObject({
    packages: [{ version: "1.4.0", source: "pypi:acme-shown-wheel==1.4" }],
    notes: [],
  });
  await expect(inspect("acme-nowhere")).rejects.toMatchObject({ code: "plugin.source_invalid" });
  await schemas.close();
}, 120_000);
