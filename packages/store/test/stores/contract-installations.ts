import type { JsonObject } from "@backplane/contract";
import type { InstallationRows, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { ids, sampleAudit, sampleBinding, sampleEvent, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function installationCases(store: () => Store): void {
  type Scope = ReturnType<typeof freshOrg>;
  const records = (scope: Scope, action: string) => ({
    events: [sampleEvent("acme/devkit", { scope })],
    audit: sampleAudit({ id: ids.next("audit"), scope, action }),
  });
  const readState = async (scope: Scope) => ({
    packages: (await store().packages.list(scope.org_id, { limit: 9 })).items.map(({ version }) => version),
    bindings: (await store().bindings.list(scope, {}, { limit: 9 })).items
      .map(({ export_id, package_version }) => `${export_id} ${package_version}`)
      .sort(),
    audit: (await store().audit.list(scope, {}, { limit: 9 })).items.map(({ action }) => action).sort(),
  });
  const NOTHING = { packages: [], bindings: [], audit: [] };

  const newInstallation = (scope: Scope, version: string): InstallationRows => ({
    packages: [
      { row: samplePackage({ org_id: scope.org_id, version }), records: records(scope, "package.install") },
    ],
    moved: [],
    created: ["one", "two"].map((export_id) => ({
      row: sampleBinding({ scope, export_id, package_version: version }),
      records: records(scope, "binding.create"),
    })),
  });

  test("stores the packages, new bindings and updated bindings of an installation together", async () => {
    const scope = freshOrg();
    const first = newInstallation(scope, "0.1.0");
    let notified = 0;
    const stop = store().audit.onAppended(() => notified++);
    expect(await store().installations.commit(first)).toEqual([
      { row: first.packages[0]!.row, created: true },
    ]);
    await expect.poll(() => notified).toBeGreaterThan(0);
    stop();
    expect(await readState(scope)).toEqual({
      packages: ["0.1.0"],
      bindings: ["one 0.1.0", "two 0.1.0"],
      audit: ["binding.create", "binding.create", "package.install"],
    });
    const [binding, other] = first.created;
    const next = newInstallation(scope, "0.2.0");
    const move = (row: typeof binding) => ({
      row: { ...row!.row, package_version: "0.2.0", generation: row!.row.generation + 1 },
      expected: row!.row.generation,
      records: {},
    });
    const three = {
      row: sampleBinding({ scope, export_id: "three", package_version: "0.2.0" }),
      records: {},
    };
    await store().installations.commit({ ...next, moved: [move(binding), move(other)], created: [three] });
    expect((await readState(scope)).bindings).toEqual(["one 0.2.0", "three 0.2.0", "two 0.2.0"]);
    // Installing the same content again keeps the row.
    const again = samplePackage({ org_id: scope.org_id, version: "0.2.0" });
    const repeated = await store().installations.commit({
      packages: [{ row: again, records: {} }],
      moved: [],
      created: [],
    });
    expect(repeated).toEqual([{ row: next.packages[0]!.row, created: false }]);
  });

  test("removes bindings before others take their versions, in the same transaction", async () => {
    const scope = freshOrg();
    const first = newInstallation(scope, "0.1.0");
    await store().installations.commit(first);
    const share = sampleBinding({ scope, export_id: "one", package_version: "0.2.0" });
    const created = [{ row: share, records: {} }];
    await store().installations.commit({ ...newInstallation(scope, "0.2.0"), created });
    const { row } = first.created[0]!;
    const moved = [
      { row: { ...row, package_version: "0.2.0", generation: 2 }, expected: row.generation, records: {} },
    ];
    const complete = { packages: [], moved, created: [] };
    const before = await readState(scope);
    const outdated = [{ row: { ...share, generation: 7 }, records: {} }];
    await expect(store().installations.commit({ ...complete, removed: outdated })).rejects.toMatchObject({
      code: "binding.conflict",
    });
    expect(await readState(scope)).toEqual(before);
    const removed = [{ row: share, records: records(scope, "binding.remove") }];
    await store().installations.commit({ ...complete, removed });
    expect((await readState(scope)).bindings).toEqual(["one 0.2.0", "two 0.1.0"]);
    expect((await readState(scope)).audit).toContain("binding.remove");
  });

  test("keeps the configuration of a removed binding for its package and scope", async () => {
    const scope = freshOrg();
    const { bindings, installations } = store();
    await installations.commit(newInstallation(scope, "0.1.0"));
    const remove = async (config: JsonObject, keeps_config: boolean) => {
      const row = sampleBinding({ scope, export_id: "kept", config });
      const empty = { packages: [], moved: [], created: [] };
      await installations.commit({ ...empty, created: [{ row, records: {} }] });
      await installations.commit({ ...empty, removed: [{ row, records: {}, keeps_config }] });
      return await bindings.getKeptConfig(scope, row.package_id);
    };
    expect(await remove({ a: 1 }, false)).toBeNull();
    expect(await remove({ a: 1 }, true)).toEqual({ a: 1 });
    expect(await remove({ a: 2 }, true)).toEqual({ a: 2 });
    expect(await remove({ a: 3 }, false)).toEqual({ a: 2 });
    expect(await bindings.getKeptConfig({ ...scope, project_id: null }, "acme/other")).toBeNull();
    expect(await remove({}, true)).toBeNull();
  });

  test("stores nothing of an installation that binds the same export twice", async () => {
    const scope = freshOrg();
    const rows = newInstallation(scope, "0.1.0");
    const duplicate = {
      ...rows.created[0]!,
      row: { ...rows.created[0]!.row, binding_id: ids.next("binding") },
    };
    const refused = store().installations.commit({ ...rows, created: [...rows.created, duplicate] });
    await expect(refused).rejects.toMatchObject({ code: "binding.conflict" });
    expect(await readState(scope)).toEqual(NOTHING);
    expect(await store().packages.find(scope.org_id, "acme/devkit", "0.1.0")).toBeNull();
  });

  test("stores nothing of an installation when a binding was changed meanwhile", async () => {
    const scope = freshOrg();
    const first = newInstallation(scope, "0.1.0");
    await store().installations.commit(first);
    const before = await readState(scope);
    const { row } = first.created[0]!;
    const moved = [{ row: { ...row, package_version: "0.2.0", generation: 8 }, expected: 7, records: {} }];
    const refused = store().installations.commit({ ...newInstallation(scope, "0.2.0"), moved });
    await expect(refused).rejects.toMatchObject({ code: "binding.conflict" });
    expect(await readState(scope)).toEqual(before);
  });

  test("stores nothing of an installation when one of its packages has different content", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id, version: "0.2.0" }), {});
    const before = await readState(scope);
    const rows = newInstallation(scope, "0.1.0");
    const digest = `sha256:${"ef".repeat(32)}`;
    const other = { row: samplePackage({ org_id: scope.org_id, version: "0.2.0", digest }), records: {} };
    const refused = store().installations.commit({ ...rows, packages: [...rows.packages, other] });
    await expect(refused).rejects.toMatchObject({ code: "package.conflict" });
    expect(await readState(scope)).toEqual(before);
  });
}
