/** How plugins are stopped: the order, the events that they receive, and the time limits. */

import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestPlugins, plugin, scope, until } from "./test-plugins.ts";

test("limits the time of a hanging onLoad or onUnload", async () => {
  const never = () => new Promise<void>(() => {});
  const fixture = await createTestPlugins(
    (loader) => {
      loader.add(() => plugin("hangs-at-load", "skill", { onLoad: never }));
      loader.add(() => plugin("hangs-at-unload", "skill", { onUnload: never }));
    },
    { timeouts: { load_ms: 30, unload_ms: 30 } },
  );
  expect(fixture.system.snapshot()).toMatchObject([
    { status: "failed", error: "onLoad of hangs-at-load took longer than 30 ms" },
    { status: "loaded" },
  ]);
  await fixture.system.stop("x");
  expect(fixture.status("hangs-at-unload")).toBe("unloaded");
});

test("unloads plugins before their requirements, even after a reload", async () => {
  const unloaded: string[] = [];
  const createSkill = (name: string, ...requires: string[]) =>
    plugin(name, "skill", { requires, onUnload: () => void unloaded.push(name) });
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => createSkill("base"));
    loader.add(() => createSkill("top", "middle"));
    loader.add(() => createSkill("middle", "base"));
  });
  await fixture.system.facade.reload(admin, "base");
  await until(() => unloaded.length === 1);
  await fixture.system.stop("x");
  expect(unloaded).toEqual(["base", "top", "middle", "base"]);
});

test("delivers kernel.shutdown before unloading, even when the kernel session is busy", async () => {
  const calls: string[] = [];
  const busy = Promise.withResolvers<void>();
  const fixture = await createTestPlugins((loader) => {
    // This plugin is unloaded last, so that only the delivery of kernel.shutdown delays the other one.
    loader.add(() =>
      plugin("slow", "skill", { subscriptions: () => ["kernel.ready"], onEvent: () => busy.promise }),
    );
    loader.add(() =>
      plugin("polite", "adapter", {
        subscriptions: () => ["kernel.shutdown"],
        onEvent: ({ payload }) => void calls.push(`heard ${String(payload.reason)}`),
        onUnload: () => void calls.push("unload"),
      }),
    );
  });
  await fixture.publish("kernel.ready", { version: "1" }, "kernel", { ...scope, project_id: null });
  await until(() => fixture.bus.stats().running === 1);
  const stopped = fixture.system.stop("SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(calls).toEqual([]);
  busy.resolve();
  await stopped;
  expect(calls).toEqual(["heard SIGTERM", "unload"]);
});

test("stops within the time limit when the kernel session is blocked", async () => {
  const fixture = await createTestPlugins(
    (loader) =>
      loader.add(() =>
        plugin("stuck", "skill", {
          subscriptions: () => ["kernel.ready"],
          onEvent: () => new Promise(() => {}),
        }),
      ),
    { timeouts: { drain_ms: 20 } },
  );
  await fixture.publish("kernel.ready", { version: "1" }, "kernel", { ...scope, project_id: null });
  await until(() => fixture.bus.stats().running === 1);
  await fixture.system.stop("SIGTERM");
  expect(fixture.status("stuck")).toBe("unloaded");
});
