/** Direct calls to hooks and compactors, whose input the gateway usually builds itself. */
import type { Json, JsonObject } from "@backplane/contract";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { buildCompleteCompaction, buildCompleteEvent } from "../fixtures/contract-inputs.ts";

const content = manifest([
  toolExport("echo"),
  hookExport("notify", ["run.completed", "invocation.settled"]),
  { id: "shrink", kind: "compactor", compactor: {} },
]);

async function createInputKernel() {
  const fixture = await createTestKernel();
  const binding_ids: Record<string, string> = {};
  for (const { id } of content.exports)
    binding_ids[id] = (await fixture.bind(content, { export_id: id })).binding_id;
  fixture.runner.script = ({ request }) =>
    ok(request.export_id === "shrink" ? { summary: { text: "short" } } : { content: [] });
  const requestsOf = (id: string) => fixture.runner.requests.filter(({ export_id }) => export_id === id);
  return { ...fixture, binding_ids, requestsOf };
}

function omitField(value: JsonObject, name: string): JsonObject {
  const { [name]: _left_out, ...rest } = value;
  return rest;
}

describe("a direct call to a hook", () => {
  test("is refused without a complete event of a type that the hook receives, and suggests `hook test`", async () => {
    const fixture = await createInputKernel();
    const event = buildCompleteEvent("run.completed");
    const cases: [Json, string[]][] = [
      [{}, ["/type", "/occurred_at", "/subject", "/summary"]],
      [omitField(event, "summary"), ["/summary"]],
      [{ ...event, subject: { kind: "run" } }, ["/subject/id"]],
      [{ ...event, occurred_at: "yesterday" }, ["/occurred_at"]],
      [{ ...event, run_id: 5 }, ["/run_id"]],
      [{ ...event, type: "run.failed" }, ["/type"]],
      [{ ...event, type: "forged" }, ["/type"]],
      ["text", [""]],
      [[], [""]],
    ];
    for (const [input, paths] of cases) {
      const refused = await fixture.call({ export_id: "notify", input }).catch((error: unknown) => error);
      expect(refused).toMatchObject({
        code: "input.invalid",
        fix: expect.stringContaining(`backplane hook test ${fixture.binding_ids.notify}`),
      });
      const { issues } = (refused as { details: { issues: { path: string }[] } }).details;
      expect(issues.map(({ path }) => path)).toEqual(paths);
    }
    expect(fixture.requestsOf("notify")).toEqual([]);
    const { items } = await fixture.kernel.invocations.list(user, { export_id: "notify" }, { limit: 20 });
    expect(items).toHaveLength(cases.length);
    for (const item of items)
      expect(item).toMatchObject({ status: "failed", error: { code: "input.invalid" } });
  });

  test("marks the event as a test, even if the caller sets test to false", async () => {
    const fixture = await createInputKernel();
    const event = buildCompleteEvent("run.completed");
    for (const input of [event, { ...event, test: false }]) {
      const done = await fixture.call({ export_id: "notify", input });
      expect(done).toMatchObject({ status: "succeeded", input: { ...event, test: true } });
      expect(fixture.requestsOf("notify").at(-1)!.body.event).toEqual({ ...event, test: true });
    }
  });
});

test("does not mark an event that the outbox delivers as a test", async () => {
  const fixture = await createInputKernel();
  await fixture.call({ export_id: "echo" });
  await until(() => fixture.requestsOf("notify").length === 1);
  expect(fixture.requestsOf("notify")[0]!.body.event).not.toHaveProperty("test");
});

test("delivers a queued event even if the hook no longer subscribes to its type", async () => {
  const fixture = await createTestKernel();
  const first = manifest([toolExport("echo"), hookExport("notify", ["invocation.settled"])]);
  await fixture.bind(first, { export_id: "echo" });
  const hook = await fixture.bind(first, { export_id: "notify", policy: { deliveries: { paused: true } } });
  await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.kernel.deliveries.list(admin, {}, { limit: 5 })).items.length === 1);
  const next = manifest([toolExport("echo"), hookExport("notify", ["run.completed"])], { version: "0.2.0" });
  await fixture.kernel.packages.install(admin, fixture.importer.add(next));
  const { package_id, version: package_version } = next;
  await fixture.kernel.bindings.upgrade(admin, { package_id, package_version });
  await fixture.kernel.bindings.patch(
    admin,
    hook.binding_id,
    { policy: { deliveries: { paused: false } } },
    undefined,
  );
  const delivered = async () =>
    (await fixture.kernel.deliveries.list(admin, { status: "delivered" }, { limit: 5 })).items;
  await until(async () => (await delivered()).length === 1);
  expect(fixture.runner.requests.at(-1)).toMatchObject({
    package: { version: "0.2.0" },
    body: { event: { type: "invocation.settled" } },
  });
});

describe("a direct call to a compactor", () => {
  test("is refused without source, target and policy, before the plugin runs", async () => {
    const fixture = await createInputKernel();
    const complete = buildCompleteCompaction();
    const { source } = complete as { source: { chain_id: string; projection: JsonObject } };
    const projected = (projection: JsonObject) => ({
      ...complete,
      source: { ...source, projection: { ...source.projection, ...projection } },
    });
    const cases: [Json, string[]][] = [
      [{}, ["/source", "/target", "/policy"]],
      [omitField(complete, "policy"), ["/policy"]],
      [{ ...complete, source: { chain_id: "ch_1" } }, ["/source/projection"]],
      [{ ...complete, target: {} }, ["/target/max_input_tokens"]],
      [
        { ...complete, policy: { retain_system: "yes" } },
        ["/policy/retain_system", "/policy/retain_open_tasks"],
      ],
      [projected({ blocks: ["text"] }), ["/source/projection/blocks"]],
      // Only the gateway passes a projection as a file.
      [projected({ transport: "artifact", path: "x" }), ["/source/projection/transport"]],
      ["text", [""]],
    ];
    for (const [input, paths] of cases) {
      const refused = await fixture.call({ export_id: "shrink", input }).catch((error: unknown) => error);
      expect(refused).toMatchObject({
        code: "input.invalid",
        fix: expect.stringContaining("source, target and policy"),
      });
      const { issues } = (refused as { details: { issues: { path: string }[] } }).details;
      expect(issues.map(({ path }) => path)).toEqual(paths);
    }
    expect(fixture.requestsOf("shrink")).toEqual([]);
  });

  test("runs with a complete request and keeps additional fields", async () => {
    const fixture = await createInputKernel();
    const input = { ...buildCompleteCompaction(), note: "mine" };
    expect((await fixture.call({ export_id: "shrink", input })).status).toBe("succeeded");
    expect(fixture.requestsOf("shrink")[0]!.body).toMatchObject(input);
  });
});
