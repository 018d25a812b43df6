/** A dry run takes the path of an installation up to its commit. */
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import {
  createInstaller,
  expectNothingStored,
  kitFiles,
  mcpJson,
  openSqlite,
  packArchive,
} from "./installer.ts";

test("reports what an installation would store, and stores and starts nothing", async () => {
  const installer = await createInstaller(await openSqlite());
  const { kernel, runner } = installer.fixture;
  const packVersion = (version: string, slots: string[] = []) =>
    packArchive(installer.writeFolder(`kit-${version}-${slots.join("")}`, kitFiles(version, { slots })));
  const dry_run = await installer.install(await packVersion("1.0.0"), { bind: true, dry_run: true });
  expect(dry_run).toMatchObject({
    dry_run: true,
    packages: [{ package: { version: "1.0.0", signature: { state: "unsigned" } }, created: true }],
    bindings: [
      { change: "created", binding: { export_id: "wave", status: "active" } },
      { change: "created", binding: { export_id: "greet", status: "active" } },
    ],
  });
  await expectNothingStored(installer);
  expect(installer.writes).toEqual([]);
  await installer.install(await packVersion("1.0.0"), { bind: true });
  const initial_state = [
    await installer.listPackages(),
    await installer.listBindings(),
    installer.listDigests(),
  ];
  const probed: unknown[] = [];
  runner.probe = async (request) => void probed.push(request);
  const next = await installer.install(await packVersion("2.0.0"), { bind: true, dry_run: true });
  expect(next.bindings).toMatchObject([
    { change: "moved", binding: { previous: { package_version: "1.0.0" } } },
    { change: "moved", binding: { previous: { package_version: "1.0.0" } } },
  ]);
  const again = await installer.install(await packVersion("1.0.0"), { bind: true, dry_run: true });
  expect(again).toMatchObject({ packages: [{ created: false }] });
  // A dry run refuses everything that the installation would refuse.
  const needs_secret = await packVersion("2.0.0", ["fresh"]);
  await expect(installer.install(needs_secret, { bind: true, dry_run: true })).rejects.toThrow(
    /needs a secret/,
  );
  expect([await installer.listPackages(), await installer.listBindings(), installer.listDigests()]).toEqual(
    initial_state,
  );
  expect(installer.writes).toEqual(["installations.commit"]);
  expect([probed, runner.requests, runner.retired]).toEqual([[], [], []]);
  const { items } = await kernel.audit.list(admin, {}, { limit: 50 });
  expect(items.filter(({ action }) => action === "package.install")).toHaveLength(1);
});

test("does not start a server in a dry run to read its tools", async () => {
  const installer = await createInstaller(await openSqlite());
  const source = mcpJson({ far: { url: "https://far.invalid/mcp" } });
  const dry_run = await installer.install(source, { dry_run: true });
  expect(dry_run).toMatchObject({
    dry_run: true,
    packages: [{ package: { package_id: "mcp/far" }, created: true }],
    bindings: [{ change: "created", binding: { export_id: "*" } }],
  });
  await expectNothingStored(installer);
  expect(installer.fixture.runner.describe_requests).toEqual([]);
});

test.each([
  ["run install scripts", { allow_scripts: ["sqlite3"] }],
  ["build a package", { allow_builds: ["parser"] }],
])("refuses to %s in a dry run", async (_what, settings) => {
  const installer = await createInstaller(await openSqlite());
  const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
  await expect(installer.install(archive, { dry_run: true, ...settings })).rejects.toMatchObject({
    code: "request.invalid",
    message: expect.stringContaining("a dry run must not run any code"),
  });
  await expectNothingStored(installer);
});
