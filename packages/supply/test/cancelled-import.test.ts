/** An import that is cancelled in any step leaves no file and no process behind. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProgressReport, ProgressStep } from "@backplane/contract";
import type { InstallationSource, Operation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { createPackageImporter, openContentStore } from "../src/index.ts";
import { createNpm } from "../src/npm/npm-command.ts";
import { type Registry, startRegistry } from "./npm-registry.ts";

const SOURCE: InstallationSource = { kind: "npm", spec: "acme-server", args: [], secret_slots: [] };

let root: string;
let registry: Registry;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "backplane-cancel-"));
  // Other test files install at the same time and have folders in the usual temporary folder.
  process.env.TMPDIR = join(root, "tmp");
  mkdirSync(process.env.TMPDIR);
  registry = await startRegistry();
  const dir = join(root, "server", "package");
  mkdirSync(dir, { recursive: true });
  const manifest = { name: "acme-server", version: "1.0.0", bin: "x.js" };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest));
  for (let i = 0; i < 20; i++) writeFileSync(join(dir, `${i}.js`), "");
  writeFileSync(join(dir, "x.js"), "");
  const archive = execFileSync("tar", ["czf", "-", "-C", join(dir, ".."), "package"]);
  registry.publish("acme-server", "1.0.0", archive, manifest);
});

afterAll(async () => {
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

function open() {
  const home = mkdtempSync(join(root, "home-"));
  const env = {
    ...process.env,
    NPM_CONFIG_REGISTRY: registry.url,
    NPM_CONFIG_CACHE: join(home, "cache"),
  };
  const importer = createPackageImporter({
    store: openContentStore(join(home, "blobs")),
    schemas: shareSchemas(),
    host: { os: "linux", arch: "amd64" },
    npm: createNpm({ env }),
  });
  const left = () => [
    ...readdirSync(join(home, "blobs/tmp")),
    ...readdirSync(join(home, "blobs/sha256")),
    ...readdirSync(tmpdir()).filter((name) => /^backplane-(?:npm|inspect)-/.test(name)),
  ];
  return { importer, left };
}

/** Cancels itself when `cancels` accepts a report. */
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

const moments: [string, (progress: ProgressReport) => boolean][] = [
  ["before npm resolves", ({ step }) => step === "resolve"],
  ["while npm resolves", ({ step, done = 0 }) => step === "resolve" && done > 0],
  ["before npm downloads", ({ step }) => step === "download"],
  ["while npm downloads", ({ step, done = 0 }) => step === "download" && done > 0],
  ["while the files are hashed", ({ step, done = 0 }) => step === "verify" && done > 3],
  ["while the package is checked", ({ step }) => step === "check"],
  ["while the files are flushed", ({ step, unit }) => step === "unpack" && unit === "files"],
];

for (const [when, cancels] of moments) {
  verifies("run.progress", `an import that is cancelled ${when} leaves nothing`, async () => {
    const { importer, left } = open();
    const operation = operationUntil(cancels);
    const opened = await importer.open(SOURCE, { operation });
    await expect(opened.import(opened.parts[0]!)).rejects.toMatchObject({ code: "request.cancelled" });
    await opened.end();
    expect(operation.reports.filter(cancels)).not.toEqual([]);
    // Work that was in progress may still be reported: a few files are read at a time.
    const after = operation.reports.length - operation.reports.findIndex(cancels) - 1;
    expect(after).toBeLessThan(10);
    expect(left()).toEqual([]);
  });
}

verifies("run.progress", "cancelling an import ends npm while it waits for the registry", async () => {
  const { importer, left } = open();
  registry.stalls = /\/-\//;
  onTestFinished(() => {
    registry.stalls = null;
  });
  const stop = new AbortController();
  const operation: Operation = { signal: stop.signal, report: () => {} };
  const opened = await importer.open(SOURCE, { operation });
  const before = registry.requests.length;
  const importing = opened.import(opened.parts[0]!);
  importing.catch(() => {});
  await expect.poll(() => registry.requests.slice(before).some((path) => path.includes("/-/"))).toBe(true);
  stop.abort();
  await expect(importing).rejects.toMatchObject({ code: "request.cancelled" });
  await opened.end();
  expect(left()).toEqual([]);
});

test("an inspection that is cancelled leaves nothing", async () => {
  const { importer, left } = open();
  const operation = operationUntil(({ done = 0 }) => done > 0);
  await expect(importer.inspect(SOURCE, { operation })).rejects.toMatchObject({ code: "request.cancelled" });
  expect(left()).toEqual([]);
});

test("reports bytes from the registry and counts of files", async () => {
  const { importer } = open();
  const operation = operationUntil(() => false);
  const opened = await importer.open(SOURCE, { operation });
  await opened.import(opened.parts[0]!);
  const last = (step: ProgressStep) => operation.reports.findLast((report) => report.step === step);
  expect(last("resolve")).toMatchObject({ unit: "bytes", done: expect.any(Number) });
  expect(last("download")?.message).toBe("Downloading 1 package for acme-server@latest");
  expect(last("download")?.done).toBeGreaterThan(0);
  // The files of the package, the lock, the package.json of the root, and the manifest.
  expect(last("verify")).toMatchObject({ unit: "files", done: 25, total: 25 });
  expect(last("unpack")).toMatchObject({ unit: "files", done: 25, total: 25 });
});
