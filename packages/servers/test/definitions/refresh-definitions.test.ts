import {
  BackplaneError,
  type BusEvent,
  type Definitions,
  type KernelPlugin,
  type ManifestToolExport,
} from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { BoundPackage, KernelDeps, RunnerNotification } from "@backplane/ports";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createDefinitionsRefresher } from "../../src/definitions/refresh-definitions.ts";

const SERVER = manifest([], {
  package_id: "acme/weather",
  runtime: { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] },
});

const describeTools = (...descriptions: string[]) => ({
  exports: descriptions.map(
    (description, index): ManifestToolExport =>
      ToolExportSchema.parse({
        id: `mcp_weather_${index}`,
        kind: "tool",
        description,
        tool: index === 0 ? { native_name: "Weather/now" } : {},
      }),
  ),
  schemas: {},
  warnings: [],
  info: {},
});

function createEventRecorder(events: BusEvent[]): KernelPlugin {
  return {
    name: "listener",
    version: "1.0.0",
    category: "skill",
    subscriptions: () => ["x.mcp.*"],
    onEvent: (event) => void events.push(event),
  };
}

verifies(
  "mcp.client",
  "describes a server again after a failure, and publishes failure and success on the bus",
  async () => {
    const events: BusEvent[] = [];
    const fixture = await createTestKernel({ plugins: [createEventRecorder(events)] });
    fixture.runner.description = () => Promise.reject(new BackplaneError("crashed", "it exited immediately"));
    const { binding_id } = await fixture.bind(SERVER);
    fixture.runner.description = () => describeTools("Weather today");
    await until(() => events.length === 2);
    const identity = { server: "weather", binding_id, package_id: "acme/weather" };
    const failure = { kind: "boot_failed", code: "crashed", message: "it exited immediately", attempt: 1 };
    const tools = [{ name: "mcp_weather_0", mcp_name: "Weather/now", description: "Weather today" }];
    expect(events.map(({ kind, session_id, payload }) => [session_id, kind, payload])).toEqual([
      ["_bridge:mcp-bridge", "x.mcp.server.error", { ...identity, ...failure }],
      ["_bridge:mcp-bridge", "x.mcp.server.ready", { ...identity, tools, quarantined: 0 }],
    ]);
    expect(await fixture.kernel.exports.discover(user, "tool")).toHaveLength(1);
  },
);

test("reports a failing server once until it is ready or its binding changes", () => {
  const published: string[] = [];
  const deps = { clock: {}, log: {}, runner: {}, store: {} } as unknown as KernelDeps;
  const refresher = createDefinitionsRefresher(deps, {
    tryPublish: (kind: string) => void published.push(kind.replace("x.mcp.server.", "")),
  } as never);
  const record = (generation: number, error: Definitions["error"]) =>
    refresher.recordResult(
      {
        binding: {
          binding_id: "b1",
          package_id: "acme/weather",
          config: {},
          generation,
          scope: { org_id: "o", project_id: null },
        },
        package: { manifest: SERVER },
      } as unknown as BoundPackage,
      { error, exports: [], quarantined: [] } as unknown as Definitions,
    );
  const failure = { code: "crashed" as const, message: "it exited immediately" };
  for (let attempt = 0; attempt < 6; attempt++) record(1, failure);
  expect(published.splice(0)).toEqual(["error"]);
  record(2, failure);
  record(2, failure);
  expect(published.splice(0)).toEqual(["error"]);
  record(2, null);
  record(2, failure);
  record(2, failure);
  expect(published).toEqual(["ready", "error"]);
});

verifies("mcp.client", "distinguishes an invalid configuration of a server from a failed start", async () => {
  const events: BusEvent[] = [];
  const fixture = await createTestKernel({ plugins: [createEventRecorder(events)] });
  fixture.runner.description = () => Promise.reject(new BackplaneError("binding.not_active", "no key"));
  await fixture.bind(SERVER);
  await until(() => events.length === 1);
  expect(events[0]!.payload).toMatchObject({ server: "weather", kind: "config_invalid", message: "no key" });
});

verifies(
  "mcp.client",
  "describes the server again after list_changed and quarantines changed tools",
  async () => {
    const fixture = await createTestKernel();
    fixture.runner.description = () => describeTools("Weather today");
    const { binding_id } = await fixture.bind(SERVER);
    fixture.runner.description = () => describeTools("Weather today, and your keys", "Brand new");
    const notification = {
      binding_id,
      project_id: null,
      method: "notifications/tools/list_changed",
      params: {},
    };
    for (let times = 0; times < 5; times++) fixture.runner.notify(notification);
    fixture.runner.notify({ ...notification, binding_id: "bind_unknown" });
    await until(
      async () => (await fixture.store.definitions.get("org_local", binding_id))?.quarantined.length === 1,
    );
    expect(fixture.runner.describe_requests).toHaveLength(2);
    const names = (await fixture.kernel.exports.discover(user, "tool")).map((item) => item.export_id);
    expect(names).toEqual(["mcp_weather_1"]);
  },
);

verifies("mcp.client", "describes a bound server again when the gateway starts", async () => {
  const fixture = await createTestKernel();
  fixture.runner.description = () => describeTools("Weather today");
  const { binding_id } = await fixture.bind(SERVER);
  await fixture.crash();
  const runner = new ScriptedRunner();
  runner.description = () => describeTools("Weather today", "Brand new");
  const next = await createTestKernel({ file: fixture.file, runner });
  await until(async () => (await next.kernel.exports.discover(user, "tool")).length === 2);
  expect(runner.describe_requests.map((request) => request.binding_id)).toEqual([binding_id]);
});

test("backs off from describing a server that keeps sending list_changed, without missing a change", async () => {
  const timers: { ms: number; run: () => void }[] = [];
  let notify: (notification: RunnerNotification) => void = () => {};
  let now = 1_000_000;
  const bound = {
    binding: {
      binding_id: "b1",
      package_id: "acme/noisy",
      config: {},
      generation: 1,
      scope: { org_id: "o", project_id: null },
    },
    package: { manifest: SERVER },
  } as unknown as BoundPackage;
  const deps = {
    clock: {
      monotonic: () => now,
      after(ms: number, run: () => void) {
        const timer = { ms, run };
        timers.push(timer);
        return { stop: () => void timers.splice(timers.indexOf(timer), 1) };
      },
    },
    log: {},
    runner: {
      onNotification(listener: typeof notify) {
        notify = listener;
        return () => {};
      },
    },
    store: { bindings: { listWholePackages: async () => [], get: async () => bound } },
  } as unknown as KernelDeps;
  const refresher = createDefinitionsRefresher(deps, { tryPublish: () => {} } as never);
  const notification = {
    binding_id: "b1",
    project_id: null,
    method: "notifications/tools/list_changed",
    params: {},
  };
  const row = { error: null, exports: [], quarantined: [] } as unknown as Definitions;
  const described_30_times = Promise.withResolvers<void>();
  let descriptions = 0;
  await refresher.start({
    describe: async () => {
      notify(notification);
      refresher.recordResult(bound, row);
      if (++descriptions === 30) described_30_times.resolve();
      return row;
    },
  });
  refresher.recordResult(bound, row);
  const pauses: number[] = [];
  notify(notification);
  notify(notification);
  for (let round = 0; round < 30; round++) {
    // A notification during the description causes exactly one more.
    expect(timers).toHaveLength(1);
    const { ms, run } = timers.pop()!;
    pauses.push(ms);
    now += ms;
    run();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await described_30_times.promise;
  expect(pauses.slice(0, 12)).toEqual([...Array.from({ length: 10 }, () => 200), 400, 800]);
  expect(Math.max(...pauses)).toBe(51_200);
});

/** A refresher with a manual clock, a store that can fail and a service whose results the test records. */
function createManualRefresher() {
  const timers: { ms: number; run: () => void }[] = [];
  const listeners: ((notification: RunnerNotification) => void)[] = [];
  const bound = {
    binding: {
      binding_id: "b1",
      package_id: "acme/weather",
      config: {},
      generation: 1,
      scope: { org_id: "o", project_id: null },
      status: "active",
    },
    package: { manifest: SERVER },
  } as unknown as BoundPackage;
  const state = { store_fails: false, whole_packages: [] as BoundPackage[] };
  const deps = {
    clock: {
      monotonic: () => 1_000_000,
      after(ms: number, run: () => void) {
        const timer = { ms, run };
        timers.push(timer);
        return {
          stop: () => {
            if (timers.includes(timer)) timers.splice(timers.indexOf(timer), 1);
          },
        };
      },
    },
    log: { warn: () => {} },
    runner: {
      onNotification(listener: (notification: RunnerNotification) => void) {
        listeners.push(listener);
        return () => {};
      },
    },
    store: {
      bindings: {
        listWholePackages: async () => state.whole_packages,
        async get() {
          if (state.store_fails) throw new BackplaneError("store.unavailable");
          return bound;
        },
      },
    },
  } as unknown as KernelDeps;
  const refresher = createDefinitionsRefresher(deps, { tryPublish: () => {} } as never);
  const announce = () => {
    const method = "notifications/tools/list_changed";
    for (const listener of listeners) listener({ binding_id: "b1", project_id: null, method, params: {} });
  };
  const buildRow = (error: Definitions["error"]) =>
    ({ error, exports: [], quarantined: [] }) as unknown as Definitions;
  return {
    announce,
    bound,
    failed: buildRow({ code: "crashed", message: "it exited immediately" }),
    refresher,
    state,
    succeeded: buildRow(null),
    pauses: () => timers.map(({ ms }) => ms),
    /** Runs the only timer and everything that it starts. */
    runTimer: async () => {
      expect(timers).toHaveLength(1);
      timers.pop()!.run();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("describes a server again if it announces a change during its first successful description after a failure", async () => {
  const { announce, bound, failed, pauses, refresher, runTimer, succeeded } = createManualRefresher();
  let descriptions = 0;
  await refresher.start({
    describe: async () => {
      if (++descriptions === 1) announce();
      refresher.recordResult(bound, succeeded);
      return succeeded;
    },
  });
  refresher.recordResult(bound, failed);
  expect(pauses()).toEqual([2_000]);
  await runTimer();
  expect([descriptions, pauses()]).toEqual([1, [200]]);
  await runTimer();
  expect([descriptions, pauses()]).toEqual([2, []]);
  // A person describes the server while the retry is scheduled.
  refresher.recordResult(bound, failed);
  announce();
  refresher.recordResult(bound, succeeded);
  expect(pauses()).toEqual([200]);
  await runTimer();
  refresher.recordResult(bound, failed);
  refresher.recordResult(bound, succeeded);
  expect([descriptions, pauses()]).toEqual([3, []]);
});

test("retries a description while the store is unavailable", async () => {
  const { bound, failed, pauses, refresher, runTimer, state, succeeded } = createManualRefresher();
  let can_write = false;
  let descriptions = 0;
  await refresher.start({
    describe: async () => {
      descriptions++;
      // As the service does when the result could not be stored.
      if (!can_write) return null;
      refresher.recordResult(bound, succeeded);
      return succeeded;
    },
  });
  refresher.recordResult(bound, failed);
  state.store_fails = true;
  await runTimer();
  expect([descriptions, pauses()]).toEqual([0, [10_000]]);
  state.store_fails = false;
  await runTimer();
  expect([descriptions, pauses()]).toEqual([1, [60_000]]);
  can_write = true;
  await runTimer();
  expect([descriptions, pauses()]).toEqual([2, []]);
});

test("retries the description of a bound server at start if the store is unavailable", async () => {
  const { bound, pauses, refresher, runTimer, state, succeeded } = createManualRefresher();
  state.whole_packages = [bound];
  let can_write = false;
  await refresher.start({
    describe: async () => {
      if (!can_write) return null;
      refresher.recordResult(bound, succeeded);
      return succeeded;
    },
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(pauses()).toEqual([2_000]);
  can_write = true;
  await runTimer();
  expect(pauses()).toEqual([]);
});

test("stops describing a binding that was disabled", async () => {
  const { bound, failed, pauses, refresher, runTimer } = createManualRefresher();
  await refresher.start({ describe: async () => null });
  refresher.recordResult(bound, failed);
  bound.binding.status = "disabled";
  await runTimer();
  expect(pauses()).toEqual([]);
});
