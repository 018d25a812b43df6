import { type Binding, codeOf, type InvokeBody } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const packageVersion = (number: string) => manifest([toolExport("echo")], { version: number });
const percent = (traffic_percent: number) => ({ rollout: { traffic_percent } });

/** Counts how many of `bodies` ran on each version; "refused" counts export.not_found. */
async function countCallsByVersion(
  fixture: TestKernel,
  bodies: InvokeBody[],
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  await Promise.all(
    bodies.map(async (body) => {
      const served_by = await fixture.call(body).then(
        (invocation) => invocation.package_version,
        (error: unknown) => (codeOf(error) === "export.not_found" ? "refused" : "broken"),
      );
      counts[served_by] = (counts[served_by] ?? 0) + 1;
    }),
  );
  return counts;
}

const sessions = (count: number): InvokeBody[] =>
  Array.from({ length: count }, (_, i) => ({ export_id: "echo", session_id: `sess_${i}` }));
const sessionless = (count: number): InvokeBody[] =>
  Array.from({ length: count }, () => ({ export_id: "echo" }));

verifies(
  "bind.rollout",
  "splits traffic by session over the newest version, older versions and the org's binding, and refuses the rest",
  async () => {
    const fixture = await createTestKernel();
    const newest = await fixture.bind(packageVersion("2.0.0"), percent(25));
    const older = await fixture.bind(packageVersion("1.10.0"), percent(100));
    // 25% ± 2% of 10,000 sessions, with two versions side by side.
    const split = await countCallsByVersion(fixture, sessions(10_000));
    expect(split["2.0.0"]).toBeGreaterThan(2_300);
    expect(split["2.0.0"]).toBeLessThan(2_700);
    expect(split["2.0.0"]! + split["1.10.0"]!).toBe(10_000);
    // A session always gets the same version; without a session the invocation id decides.
    const again = await countCallsByVersion(
      fixture,
      [...Array(20)].map(() => sessions(1)[0]!),
    );
    expect(Object.keys(again)).toHaveLength(1);
    const without_session = await countCallsByVersion(fixture, sessionless(2_000));
    expect(without_session["2.0.0"]).toBeGreaterThan(400);
    expect(without_session["2.0.0"]).toBeLessThan(600);
    // The org's binding gets its share of the remaining calls, and the rest are refused.
    const setPercent = (id: string, traffic: number) =>
      fixture.kernel.bindings.patch(admin, id, percent(traffic), undefined);
    await setPercent(older.binding_id, 25);
    const org = await fixture.bind(packageVersion("1.0.0"), { ...percent(25), org_wide: true });
    const counts = await countCallsByVersion(fixture, sessions(2_000));
    for (const name of ["2.0.0", "1.10.0", "1.0.0", "refused"]) expect(counts[name]).toBeGreaterThan(400);
    // Bindings with 0 percent and disabled bindings never run.
    await setPercent(newest.binding_id, 0);
    await fixture.kernel.bindings.patch(admin, older.binding_id, { status: "disabled" }, undefined);
    await setPercent(org.binding_id, 100);
    expect(await countCallsByVersion(fixture, sessions(200))).toEqual({ "1.0.0": 200 });
    await setPercent(org.binding_id, 0);
    expect(await countCallsByVersion(fixture, sessions(50))).toEqual({ refused: 50 });
    // The project's bindings fill their buckets before a newer version of the org.
    await setPercent(newest.binding_id, 100);
    await fixture.bind(packageVersion("3.0.0"), { ...percent(100), org_wide: true });
    expect(await countCallsByVersion(fixture, sessions(200))).toEqual({ "2.0.0": 200 });
    const named = sessions(200).map((body) => ({ ...body, package_id: "acme/devkit" }));
    expect(await countCallsByVersion(fixture, named)).toEqual({ "2.0.0": 200 });
    await setPercent(newest.binding_id, 0);
    const direct = fixture.kernel.invocations.invoke(user, { binding_id: newest.binding_id });
    await expect(direct).rejects.toMatchObject({ code: "binding.not_active" });
  },
  60_000,
);

test("keeps sessions on the new version when its share is raised", async () => {
  const fixture = await createTestKernel();
  const newest = await fixture.bind(packageVersion("2.0.0"), percent(20));
  await fixture.bind(packageVersion("1.0.0"));
  const sessionsOnNewest = async () => {
    const session_ids = new Set<string>();
    await Promise.all(
      sessions(200).map(async (body) => {
        const invocation = await fixture.call(body);
        if (invocation.package_version === "2.0.0") session_ids.add(body.session_id!);
      }),
    );
    return session_ids;
  };
  const before = await sessionsOnNewest();
  await fixture.kernel.bindings.patch(admin, newest.binding_id, percent(60), undefined);
  const after = await sessionsOnNewest();
  expect(before.size).toBeGreaterThan(0);
  expect(after.size).toBeGreaterThan(before.size);
  for (const session of before) expect(after).toContain(session);
});

test("gives an export name to the first of two packages; the other needs package_id", async () => {
  const fixture = await createTestKernel();
  const first = await fixture.bind(packageVersion("1.0.0"));
  const other_binding: Binding = await fixture.bind(
    manifest([toolExport("echo")], { package_id: "acme/other" }),
  );
  expect((await fixture.call({ export_id: "echo" })).binding_id).toBe(first.binding_id);
  const named = await fixture.call({ export_id: "echo", package_id: "acme/other" });
  expect(named.binding_id).toBe(other_binding.binding_id);
});

test("picks the org's binding for a caller of the whole org who specifies no project", async () => {
  const fixture = await createTestKernel();
  const project_binding = await fixture.bind(packageVersion("2.0.0"));
  const org: Caller = { ...user, scope: { ...user.scope, project_id: null } };
  await expect(fixture.call({ export_id: "echo" }, org)).rejects.toMatchObject({ code: "export.not_found" });
  const org_binding = await fixture.bind(packageVersion("1.0.0"), { org_wide: true });
  expect((await fixture.call({ export_id: "echo" }, org)).binding_id).toBe(org_binding.binding_id);
  expect((await fixture.call({ binding_id: project_binding.binding_id }, org)).binding_id).toBe(
    project_binding.binding_id,
  );
  expect((await fixture.call({ export_id: "echo" })).binding_id).toBe(project_binding.binding_id);
  const binding_ids = (await fixture.kernel.exports.discover(org, "tool")).map((item) => item.binding_id);
  expect(binding_ids.sort()).toEqual([project_binding.binding_id, org_binding.binding_id].sort());
});
