/** Cancels imports in each of their steps and checks that they leave no files behind. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProgressReport, ProgressStep } from "@backplane/contract";
import type { InstallationSource, Operation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPackageImporter, openContentStore } from "../../src/index.ts";
import { createNpm, type Npm } from "../../src/npm/npm-command.ts";
import { packPackage, type Registry, startRegistry } from "../support/npm-registry.ts";
import { reuseTree } from "../support/reuse-tree.ts";

let root: string;
let registry: Registry;
/** Shared, because each npm starts one more process to read the settings. */
let npm: Npm;
let count = 0;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "backplane-cancel-"));
  // Other test files install at the same time and have folders in the usual temporary folder.
  process.env.TMPDIR = join(root, "tmp");
  mkdirSync(process.env.TMPDIR);
  registry = await startRegistry();
  npm = createNpm({
    env: { ...process.env, NPM_CONFIG_REGISTRY: registry.url, NPM_CONFIG_CACHE: join(root, "cache") },
  });
});

afterAll(async () => {
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

/** Publishes a new package, which is not in npm's cache, and returns its name. */
function publishServer(): string {
  const manifest = { name: `acme-server-${count++}`, version: "1.0.0", bin: "x.js" };
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}.js`, ""]));
  const archive = packPackage({ "package.json": JSON.stringify(manifest), ...files, "x.js": "" });
  registry.publish(manifest.name, manifest.version, archive, manifest);
  return manifest.name;
}

function createImport(spec: string, with_npm = npm) {
  const home = mkdtempSync(join(root, "home-"));
  const importer = createPackageImporter({
    store: openContentStore(join(home, "blobs")),
    schemas: shareSchemas(),
    host: { os: "linux", arch: "amd64" },
    npm: with_npm,
  });
  const leftovers = () => [
    ...readdirSync(join(home, "blobs/tmp")),
    ...readdirSync(join(home, "blobs/sha256")),
    ...readdirSync(tmpdir()).filter((name) => /^backplane-(?:npm|inspect)-/.test(name)),
  ];
  const source: InstallationSource = { kind: "npm", spec, args: [], secret_slots: [] };
  return { importer, source, leftovers };
}

/** An operation that is cancelled as soon as `cancels` accepts a report. */
function operationUntil(
  cancels: (progress: ProgressReport) => boolean,
): Operation & { reports: ProgressReport[] } {
  const stop = new AbortController();
  const reports: ProgressReport[] = [];
  return {
    reports,
    signal: stop.signal,
    report(progress) {
      reports.push(progress);
      if (cancels(progress)) stop.abort();
    },
  };
}

type Moment = [when: string, cancels: (progress: ProgressReport) => boolean];

const MOMENTS_OF_NPM: Moment[] = [
  ["before npm resolves", ({ step }) => step === "resolve"],
  ["while npm resolves", ({ step, done = 0 }) => step === "resolve" && done > 0],
  ["before npm downloads", ({ step }) => step === "download"],
  ["while npm downloads", ({ step, done = 0 }) => step === "download" && done > 0],
];
const LATER_MOMENTS: Moment[] = [
  ["while the files are hashed", ({ step, done = 0 }) => step === "verify" && done > 3],
  ["while the package is checked", ({ step }) => step === "check"],
  ["while the files are flushed", ({ step, unit }) => step === "unpack" && unit === "files"],
];

async function cancelImport(cancels: Moment[1], spec: string, with_npm = npm): Promise<void> {
  const { importer, source, leftovers } = createImport(spec, with_npm);
  const operation = operationUntil(cancels);
  const opened = await importer.open(source, { operation });
  await expect(opened.import(opened.parts[0]!)).rejects.toMatchObject({ code: "request.cancelled" });
  await opened.end();
  expect(operation.reports.filter(cancels)).not.toEqual([]);
  // Work that was in progress may still be reported: a few files are read at a time.
  const after = operation.reports.length - operation.reports.findIndex(cancels) - 1;
  expect(after).toBeLessThan(10);
  expect(leftovers()).toEqual([]);
}

for (const [when, cancels] of MOMENTS_OF_NPM) {
  verifies("run.progress", `an import that is cancelled ${when} leaves nothing behind`, async () => {
    await cancelImport(cancels, publishServer());
  });
}

let installed: { spec: string; npm: Npm } | undefined;
for (const [when, cancels] of LATER_MOMENTS) {
  verifies("run.progress", `an import that is cancelled ${when} leaves nothing behind`, async () => {
    if (installed === undefined) {
      const spec = publishServer();
      installed = { spec, npm: reuseTree(npm, `${spec}@latest`) };
    }
    await cancelImport(cancels, installed.spec, installed.npm);
  });
}

verifies("run.progress", "cancelling an import kills npm while it waits for the registry", async () => {
  const { importer, source, leftovers } = createImport(publishServer());
  registry.stalls = /\/-\//;
  onTestFinished(() => {
    registry.stalls = null;
  });
  const stop = new AbortController();
  const operation: Operation = { signal: stop.signal, report: () => {} };
  const opened = await importer.open(source, { operation });
  const before = registry.requests.length;
  const importing = opened.import(opened.parts[0]!);
  importing.catch(() => {});
  await expect.poll(() => registry.requests.slice(before).some((path) => path.includes("/-/"))).toBe(true);
  stop.abort();
  await expect(importing).rejects.toMatchObject({ code: "request.cancelled" });
  await opened.end();
  expect(leftovers()).toEqual([]);
});

test("an inspection that is cancelled leaves nothing behind", async () => {
  const { importer, source, leftovers } = createImport(publishServer());
  const operation = operationUntil(({ done = 0 }) => done > 0);
  await expect(importer.inspect(source, { operation })).rejects.toMatchObject({ code: "request.cancelled" });
  expect(leftovers()).toEqual([]);
});

test("reports the bytes received from the registry and the number of files", async () => {
  const spec = publishServer();
  const { importer, source } = createImport(spec);
  const operation = operationUntil(() => false);
  const opened = await importer.open(source, { operation });
  await opened.import(opened.parts[0]!);
  const last = (step: ProgressStep) => operation.reports.findLast((report) => report.step === step);
  expect(last("resolve")).toMatchObject({ unit: "bytes", done: expect.any(Number) });
  expect(last("download")?.message).toBe(`Downloading 1 package for ${spec}@latest`);
  expect(last("download")?.done).toBeGreaterThan(0);
  // The files of the package, the lock, the package.json of the root, and the manifest.
  expect(last("verify")).toMatchObject({ unit: "files", done: 25, total: 25 });
  expect(last("unpack")).toMatchObject({ unit: "files", done: 25, total: 25 });
});
