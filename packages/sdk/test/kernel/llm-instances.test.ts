/** Which plugin answers a model call, and how a configuration change affects a provider instance. */
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createInstance } from "./llm-bus.ts";
import { createLlmBus, parts } from "./scripted-llm.ts";

test("ignores a request for another plugin's instance or for an unknown instance", async () => {
  const { bus, created_ids } = createLlmBus(() => parts({ type: "content", text: "mine" }));
  bus.instances.org_a!.push(createInstance("llm-other", {}, "theirs"));
  await bus.request({ provider: "theirs" }).handled;
  await bus.request({ provider: "nobody" }).handled;
  expect(bus.emitted).toEqual([]);
  expect(created_ids).toEqual([]);
});

verifies("llm.instances", "reloads only the changed instance in its own organization", async () => {
  const { bus, created_ids } = createLlmBus((_, { id, config }) =>
    parts({ type: "content", text: `${id} ${config.model as string}` }),
  );
  const instance = (id: string, model: string) => createInstance("llm-test", { model }, id);
  bus.instances.org_a = [instance("one", "v1"), instance("two", "v1")];
  bus.instances.org_b = [instance("one", "b1")];
  const answer = async (provider: string, org_id = "org_a") =>
    (await bus.call({ provider, model: "" }, { org_id })).payload.text;
  expect([
    await answer("one"),
    await answer("two"),
    await answer("one", "org_b"),
    await answer("one"),
  ]).toEqual(["one v1", "two v1", "one b1", "one v1"]);
  expect(created_ids).toEqual(["one", "two", "one"]);

  bus.instances.org_a = [instance("one", "v2"), { ...instance("two", "v1"), label: "renamed" }];
  for (const key of ["providers.one.model", "providers.two.label", "plugin.llm_test.x", "provider"]) {
    const hint = key.slice(0, key.lastIndexOf(".") + 1);
    await bus.send("config.updated", { key, prefix_match_hint: hint }, { session_id: "kernel" }).handled;
  }
  expect([await answer("one"), await answer("two"), await answer("one", "org_b")]).toEqual([
    "one v2",
    "two v1",
    "one b1",
  ]);
  expect(created_ids).toEqual(["one", "two", "one", "one"]);

  bus.instances.org_a = [instance("one", "v2")];
  await bus.send("config.updated", { key: "providers.two.plugin", prefix_match_hint: "providers.two." })
    .handled;
  await bus.request({ provider: "two" }).handled;
  expect(created_ids).toHaveLength(4);
});

test("applies a configuration write before its change event arrives", async () => {
  const { bus } = createLlmBus((_, { config }) => parts({ type: "content", text: config.model as string }));
  for (const model of ["v1", "v2"]) {
    bus.instances.org_a = [createInstance("llm-test", { model })];
    expect((await bus.call()).payload.text).toBe(model);
  }
});

verifies("llm.instances", "keeps the provider of a running call while its instance is reloaded", async () => {
  const gate = Promise.withResolvers<void>();
  const { bus, created_ids } = createLlmBus(async function* (_, { config }) {
    yield { type: "content", text: `${config.model as string} ` };
    if (config.model === "v1") await gate.promise;
    yield { type: "content", text: "done" };
  });
  bus.instances.org_a = [createInstance("llm-test", { model: "v1" })];
  const running_call = bus.request();
  await bus.until(() => bus.emitted.length > 0);
  bus.instances.org_a = [createInstance("llm-test", { model: "v2" })];
  await bus.send("config.updated", { key: "providers.main.model", prefix_match_hint: "providers.main." })
    .handled;
  expect((await bus.call()).payload.text).toBe("v2 done");
  gate.resolve();
  await running_call.handled;
  expect(bus.eventsOf(running_call.id).at(-1)?.payload.text).toBe("v1 done");
  expect(created_ids).toHaveLength(2);
});

test("accepts the plugin's own name as an instance id if no instance has that id", async () => {
  const { bus } = createLlmBus((_, { id }) => parts({ type: "content", text: `I am ${id}` }));
  bus.instances.org_a = [];
  expect((await bus.call({ provider: "llm-test" })).payload.text).toBe("I am llm-test");
  bus.instances.org_a = [createInstance("llm-other", {}, "llm-test")];
  await bus.request({ provider: "llm-test" }).handled;
  expect(bus.emitted.filter(({ kind }) => kind === "llm.call.response")).toHaveLength(1);
});

test("reports the worst health of its instances without calling a model", async () => {
  const { bus, plugin } = createLlmBus(() => parts(), {
    healthCheck: ({ config }) =>
      config.api_key === undefined ? { status: "degraded", message: "no api_key" } : { status: "ok" },
  });
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({
    status: "degraded",
    summary: "main: no api_key",
  });
  bus.instances.org_a = [createInstance("llm-test", { api_key: "k" })];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({
    status: "ok",
    summary: "1 instance ready",
  });
});

test("reports an instance that nobody has set up as healthy, until it is active or configured", async () => {
  const { bus, plugin } = createLlmBus(() => parts(), {
    healthCheck: () => ({ status: "degraded", message: "no api_key" }),
  });
  bus.instances.org_a = [createInstance("llm-test", {}, "llm-test")];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "ok", summary: "not set up" });
  bus.active = "llm-test";
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({
    status: "degraded",
    summary: "llm-test: no api_key",
  });
  bus.active = null;
  bus.instances.org_a = [createInstance("llm-test", { model: "m" }, "llm-test")];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "degraded" });
});
