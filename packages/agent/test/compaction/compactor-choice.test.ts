/** The choice of the compactor for a compaction, including when the first one fails. */
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const REF = { session_id: "s1" };

interface BoundCompactor {
  id: string;
  context?: string;
  level?: "org";
  percent?: number;
}

async function createSessionWith(...compactors: BoundCompactor[]): Promise<TestSession> {
  const fixture = await createTestSession();
  for (const { id, context = "general", level, percent = 100 } of compactors) {
    const content = manifest([{ id, kind: "compactor", compactor: { target_context: context } }], {
      package_id: `acme/${id}`,
    });
    await fixture.bind(content, {
      rollout: { traffic_percent: percent },
      ...(level === "org" ? { org_wide: true } : {}),
    });
  }
  for (let n = 0; n < 3; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(30)}`);
  fixture.runner.script = () => ok({ seed_blocks: [], summary: { text: "short" } });
  return fixture;
}

const calledExports = ({ runner }: TestSession) => runner.requests.map(({ export_id }) => export_id);

verifies("compactor.choice", "calls only the compactor that the caller requests", async () => {
  const fixture = await createSessionWith({ id: "one" }, { id: "two" });
  const { sessions } = fixture.kernel;
  await sessions.compact(user, REF, { compactor: "two" });
  await sessions.undoCompaction(user, REF);
  await sessions.compact(user, REF, { compactor: "acme/two/two" });
  await sessions.undoCompaction(user, REF);
  expect(calledExports(fixture)).toEqual(["two", "two"]);
  await expect(sessions.compact(user, REF, { compactor: "three" })).rejects.toMatchObject({
    code: "export.not_found",
  });
  // Another candidate does not replace the requested one.
  fixture.runner.script = () => ended("failed", "plugin_failed");
  await expect(sessions.compact(user, REF, { compactor: "two" })).rejects.toMatchObject({
    code: "plugin_failed",
  });
  expect(calledExports(fixture)).not.toContain("one");
  // The model's summary can be requested too.
  await sessions.compact(user, REF, { compactor: "model" });
  expect(calledExports(fixture)).not.toContain("one");
});

verifies("compactor.choice", "prefers the compactor made for the context of the session", async () => {
  const fixture = await createSessionWith(
    { id: "other", context: "support" },
    { id: "general" },
    { id: "coder", context: "coding" },
  );
  const { sessions } = fixture.kernel;
  const compactAndUndo = async (options = {}) => {
    fixture.runner.requests.length = 0;
    await sessions.compact(user, REF, options);
    await sessions.undoCompaction(user, REF);
    return calledExports(fixture);
  };
  expect(await compactAndUndo()).toEqual(["general"]);
  expect(await compactAndUndo({ target_context: "coding" })).toEqual(["coder"]);
  expect(await compactAndUndo({ target_context: "research" })).toEqual(["general"]);
  await sessions.patch(user, REF, { target_context: "support" });
  expect(await compactAndUndo()).toEqual(["other"]);
});

verifies("compactor.choice", "uses a project's compactor before the org's", async () => {
  const fixture = await createSessionWith({ id: "orgs", level: "org" }, { id: "projects" });
  await fixture.kernel.sessions.compact(user, REF);
  expect(calledExports(fixture)).toEqual(["projects"]);
});

verifies("compactor.choice", "applies the rollout of a binding per session", async () => {
  const fixture = await createSessionWith({ id: "some", percent: 50 });
  const { sessions } = fixture.kernel;
  const served: boolean[] = [];
  for (let n = 0; n < 12; n++) {
    const session_id = `rollout-${n}`;
    await sessions.fork(user, REF, { child_id: session_id });
    for (let round = 0; round < 2; round++) {
      fixture.runner.requests.length = 0;
      const { id } = await sessions.compact(user, { session_id });
      served.push((await sessions.getCompaction(user, id)).compactor !== null);
      await sessions.undoCompaction(user, { session_id });
    }
    // The same session always gets the same compactor.
    expect(served.at(-1)).toBe(served.at(-2));
  }
  expect(new Set(served)).toEqual(new Set([true, false]));
});

verifies(
  "compactor.choice",
  "calls the next candidate, and finally the model, when a compactor fails",
  async () => {
    const fixture = await createSessionWith({ id: "broken" }, { id: "malformed" }, { id: "good" });
    const { sessions } = fixture.kernel;
    const results: Record<string, () => ReturnType<typeof ok>> = {
      broken: () => ended("failed", "plugin_failed"),
      malformed: () => ok({ seed_blocks: [{ kind: "input" }] }),
      good: () => ok({ seed_blocks: [], summary: { text: "short" } }),
    };
    fixture.runner.script = ({ request }) => results[request.export_id]!();
    const first = await sessions.getCompaction(user, (await sessions.compact(user, REF)).id);
    expect(calledExports(fixture)).toEqual(["broken", "malformed", "good"]);
    expect(first.compactor).toMatchObject({ export_id: "good" });
    expect(first.failed_compactors.map(({ export_id, code }) => [export_id, code])).toEqual([
      ["broken", "plugin_failed"],
      ["malformed", "malformed_response"],
    ]);
    await sessions.undoCompaction(user, REF);
    results.good = () => ok({ seed_blocks: [], summary: { text: "too long ".repeat(2_000) } });
    const second = await sessions.getCompaction(user, (await sessions.compact(user, REF)).id);
    expect(second.compactor).toBeNull();
    expect(second.failed_compactors.map(({ code }) => code)).toEqual([
      "plugin_failed",
      "malformed_response",
      "request.invalid",
    ]);
  },
);

test("does not call a compactor whose binding is disabled", async () => {
  const fixture = await createSessionWith({ id: "off" });
  const [binding] = (await fixture.kernel.bindings.list(admin, { kind: "compactor" }, { limit: 5 })).items;
  await fixture.kernel.bindings.patch(admin, binding!.binding_id, { status: "disabled" }, undefined);
  await fixture.kernel.sessions.compact(user, REF);
  expect(calledExports(fixture)).toEqual([]);
});
