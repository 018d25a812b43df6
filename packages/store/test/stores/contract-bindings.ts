import type { Binding } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ids, sampleAudit, sampleBinding, sampleEvent, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function bindingCases(store: () => Store): void {
  test("installs a package once, and refuses other content for the same version", async () => {
    const { org_id } = freshOrg();
    const first = samplePackage({ org_id });
    expect(await store().packages.insert(first, {})).toEqual({ row: first, created: true });
    expect(await store().packages.insert({ ...samplePackage({ org_id }) }, {})).toEqual({
      row: first,
      created: false,
    });
    const other = samplePackage({ org_id, digest: `sha256:${"ef".repeat(32)}` });
    await expect(store().packages.insert(other, {})).rejects.toMatchObject({ code: "package.conflict" });
    expect(await store().packages.get(org_id, first.id)).toEqual(first);
    expect(await store().packages.get("org_other", first.id)).toBeNull();
    expect(await store().packages.find(org_id, "acme/devkit", "0.1.0")).toEqual(first);
    expect(await store().packages.find(org_id, "acme/devkit", "0.2.0")).toBeNull();
    expect(await store().packages.isDigestInUse(first.digest)).toBe(true);
    expect(await store().packages.isDigestInUse("sha256:none")).toBe(false);
  });

  test("removes a package only when it is not bound", async () => {
    const scope = freshOrg();
    const row = samplePackage({ org_id: scope.org_id });
    await store().packages.insert(row, {});
    const binding = sampleBinding({ scope });
    await store().bindings.create(binding, {});
    await expect(store().packages.remove(scope.org_id, row.id, {})).rejects.toMatchObject({
      code: "package.bound",
      details: { bindings: [binding.binding_id] },
    });
    expect(await store().bindings.remove(scope, binding.binding_id, {})).toBe(true);
    expect(await store().packages.remove(scope.org_id, row.id, {})).toBe(true);
    expect(await store().packages.remove(scope.org_id, row.id, {})).toBe(false);
    await expect(store().bindings.create(sampleBinding({ scope }), {})).rejects.toMatchObject({
      code: "package.not_found",
    });
  });

  test("updates several bindings together or not at all", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    await store().packages.insert(samplePackage({ org_id: scope.org_id, version: "0.2.0" }), {});
    const rows = ["one", "two"].map((export_id) => sampleBinding({ scope, export_id }));
    for (const row of rows) await store().bindings.create(row, {});
    const change = (row: (typeof rows)[number], expected: number) => ({
      row: { ...row, package_version: "0.2.0", generation: expected + 1 },
      expected,
      records: {},
    });
    const readVersions = async () => {
      const { items } = await store().bindings.list(scope, {}, { limit: 5 });
      return items.map(({ package_version }) => package_version);
    };
    const outdated = [change(rows[0]!, 1), change(rows[1]!, 7)];
    await expect(store().bindings.updateAll(outdated)).rejects.toMatchObject({ code: "binding.conflict" });
    expect(await readVersions()).toEqual(["0.1.0", "0.1.0"]);
    await store().bindings.updateAll(rows.map((row) => change(row, 1)));
    expect(await readVersions()).toEqual(["0.2.0", "0.2.0"]);
  });

  test("refuses a change that was checked before another binding of the org changed", async () => {
    const scope = freshOrg();
    const { bindings, installations } = store();
    for (const version of ["0.1.0", "0.2.0"])
      await store().packages.insert(samplePackage({ org_id: scope.org_id, version }), {});
    const rows = ["one", "two", "three"].map((export_id) => sampleBinding({ scope, export_id }));
    const [first, second, third] = rows as [Binding, Binding, Binding];
    const outdated = { code: "binding.conflict", details: { names_at: 0 } };
    expect(await bindings.getRevision(scope.org_id)).toBe(0);
    await bindings.create(first, {}, 0);
    await expect(bindings.create(second, {}, 0)).rejects.toMatchObject(outdated);
    await bindings.create(second, {}, 1);
    const change = { row: { ...first, generation: 2 }, expected: 1, records: {} };
    await expect(bindings.update(change.row, 1, {}, 0)).rejects.toMatchObject(outdated);
    await expect(bindings.updateAll([change], 0)).rejects.toMatchObject(outdated);
    const installation = { packages: [], moved: [change], created: [{ row: third, records: {} }] };
    await expect(installations.commit({ ...installation, expected_revision: 0 })).rejects.toMatchObject(
      outdated,
    );
    await installations.commit({
      ...installation,
      expected_revision: await bindings.getRevision(scope.org_id),
    });
    const previous_revision = await bindings.getRevision(scope.org_id);
    await bindings.remove(scope, third.binding_id, {});
    await bindings.create({ ...third, binding_id: ids.next("binding") }, {});
    expect(await bindings.getRevision(scope.org_id)).toBe(previous_revision + 2);
    expect(await bindings.getRevision(freshOrg().org_id)).toBe(0);
  });

  test("lists packages from the newest to the oldest, in pages", async () => {
    const { org_id } = freshOrg();
    const rows = [];
    for (let n = 0; n < 5; n++) rows.push(samplePackage({ org_id, version: `0.${n}.0` }));
    for (const row of rows) await store().packages.insert(row, {});
    const newest = rows.map((row) => row.id).reverse();
    const first = await store().packages.list(org_id, { limit: 2 });
    expect(first.items.map((row) => row.id)).toEqual(newest.slice(0, 2));
    const second = await store().packages.list(org_id, { limit: 2, after: first.next! });
    expect(second.items.map((row) => row.id)).toEqual(newest.slice(2, 4));
    const third = await store().packages.list(org_id, { limit: 2, after: second.next! });
    expect(third.items.map((row) => row.id)).toEqual(newest.slice(4));
    expect(third.next).toBeNull();
  });

  verifies(
    "bind.scope",
    "shows a project its own bindings and the org's, and no id of another project",
    async () => {
      const project = freshOrg();
      const other = { ...project, project_id: "proj_other" };
      const org = { ...project, project_id: null };
      await store().packages.insert(samplePackage({ org_id: project.org_id }), {});
      const own = sampleBinding({ scope: project });
      const shared = sampleBinding({ scope: org });
      const foreign = sampleBinding({ scope: other });
      for (const row of [own, shared, foreign]) await store().bindings.create(row, {});

      expect((await store().bindings.get(project, own.binding_id))?.binding).toEqual(own);
      expect((await store().bindings.get(project, shared.binding_id))?.binding).toEqual(shared);
      expect(await store().bindings.get(project, foreign.binding_id)).toBeNull();
      expect(await store().bindings.get(project, ids.next("binding"))).toBeNull();
      expect(await store().bindings.get(freshOrg(), own.binding_id)).toBeNull();
      expect((await store().bindings.get(org, foreign.binding_id))?.binding).toEqual(foreign);

      const candidates = await store().bindings.findCandidates(project, "search");
      expect(candidates.map((item) => item.binding.binding_id)).toEqual([own.binding_id, shared.binding_id]);
      expect(candidates[0]?.package.package_id).toBe("acme/devkit");
      expect(await store().bindings.findCandidates(project, "search", "acme/none")).toEqual([]);
      expect(
        (await store().bindings.list(project, {}, { limit: 10 })).items.map((row) => row.binding_id),
      ).toEqual([shared.binding_id, own.binding_id]);
      expect((await store().bindings.list(org, { kind: "tool" }, { limit: 10 })).items).toHaveLength(3);
      expect((await store().bindings.list(org, { kind: "hook" }, { limit: 10 })).items).toHaveLength(0);
      expect(await store().bindings.discover(project, "tool")).toHaveLength(2);

      expect(await store().bindings.remove(project, foreign.binding_id, {})).toBe(false);
      expect(await store().bindings.remove(project, shared.binding_id, {})).toBe(false);
      expect(await store().bindings.remove(org, shared.binding_id, {})).toBe(true);
    },
  );

  test("binds the same version of an export once per scope", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    await store().packages.insert(samplePackage({ org_id: scope.org_id, version: "0.2.0" }), {});
    const first = sampleBinding({ scope });
    const second = sampleBinding({ scope, package_version: "0.2.0" });
    await store().bindings.create(first, {});
    await store().bindings.create(second, {});
    await expect(store().bindings.create(sampleBinding({ scope }), {})).rejects.toMatchObject({
      code: "binding.conflict",
      details: { binding_id: first.binding_id },
    });
    const duplicate = { ...second, package_version: "0.1.0", generation: 2 };
    await expect(store().bindings.update(duplicate, 1, {})).rejects.toMatchObject({
      code: "binding.conflict",
    });
    expect((await store().bindings.get(scope, second.binding_id))?.binding).toEqual(second);
  });

  verifies(
    "api.bindings",
    "writes each generation once with 100 concurrent updates of a binding",
    async () => {
      const scope = freshOrg();
      await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
      const row = sampleBinding({ scope, config: { changes: [] } });
      await store().bindings.create(row, {});
      const change = async (writer: number): Promise<void> => {
        for (;;) {
          const { binding } = (await store().bindings.get(scope, row.binding_id))!;
          const changes = [...(binding.config.changes as number[]), writer];
          const next = { ...binding, config: { changes }, generation: binding.generation + 1 };
          if (await store().bindings.update(next, binding.generation, {})) return;
        }
      };
      await Promise.all(Array.from({ length: 100 }, (_, writer) => change(writer)));
      const { binding } = (await store().bindings.get(scope, row.binding_id))!;
      expect(binding.generation).toBe(101);
      expect([...(binding.config.changes as number[])].sort((a, b) => a - b)).toEqual(
        Array.from({ length: 100 }, (_, writer) => writer),
      );
    },
  );

  test("does not update a binding of another project", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const row = sampleBinding({ scope });
    await store().bindings.create(row, {});
    const moved_row = { ...row, scope: { ...scope, project_id: "proj_other" }, generation: 2 };
    expect(await store().bindings.update(moved_row, 1, {})).toBe(false);
  });

  test("removes a binding only in the generation that the caller has read", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const binding = sampleBinding({ scope });
    const id = binding.binding_id;
    await store().bindings.create(binding, {});
    await store().bindings.update({ ...binding, generation: 2 }, 1, {});
    const audit = sampleAudit({ scope, action: "binding.remove" });
    expect(await store().bindings.remove(scope, id, { audit }, 1)).toBe(false);
    expect((await store().bindings.get(scope, id))?.binding.generation).toBe(2);
    expect((await store().audit.list(scope, {}, { limit: 5 })).items).toEqual([]);
    expect(await store().bindings.remove(scope, id, { audit }, 2)).toBe(true);
    expect(await store().bindings.get(scope, id)).toBeNull();
  });

  test("finds hooks by event, and those of a project only for its own events", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const own = sampleBinding({ scope, export_id: "notify", kind: "hook" });
    const org = sampleBinding({ scope: { ...scope, project_id: null }, export_id: "notify", kind: "hook" });
    await store().bindings.create(own, {});
    await store().bindings.create(org, {});
    const hooksFor = async (project_id: string | null, event: "invocation.settled" | "run.started") =>
      (await store().bindings.findHooks({ ...scope, project_id }, event)).map(
        (item) => item.binding.binding_id,
      );
    expect(await hooksFor("proj_default", "invocation.settled")).toEqual([own.binding_id, org.binding_id]);
    expect(await hooksFor("proj_other", "invocation.settled")).toEqual([org.binding_id]);
    expect(await hooksFor(null, "invocation.settled")).toEqual([org.binding_id]);
    expect(await hooksFor("proj_default", "run.started")).toEqual([]);
    await store().bindings.update({ ...own, status: "disabled", generation: 2 }, 1, {});
    expect(await hooksFor("proj_default", "invocation.settled")).toEqual([org.binding_id]);
  });

  test("writes records in the transaction of their change", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const row = sampleBinding({ scope });
    const records = () => ({
      events: [sampleEvent(row.binding_id, { scope, type: "binding.changed" as const })],
      audit: sampleAudit({ scope, action: "binding.create", subject: row.binding_id }),
    });
    await store().bindings.create(row, records());
    await expect(store().bindings.create(sampleBinding({ scope }), records())).rejects.toThrow();
    expect(await store().bindings.update({ ...row, generation: 9 }, 8, records())).toBe(false);
    expect(await store().outbox.read(0, 100, scope)).toHaveLength(1);
    expect((await store().audit.list(scope, {}, { limit: 10 })).items).toHaveLength(1);
  });
}
