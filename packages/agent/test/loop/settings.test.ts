import type { Json } from "@backplane/contract";
import { LOOP_LIMITS } from "@backplane/contract";
import { scope } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { LoopSettings } from "../../src/loop/settings.ts";

const key = { scope, workspace: "/w", session_id: "s1" };

function createSettings(config: Record<string, Json>, session_strategy: string | null = null) {
  const state = { session_strategy, updated: (_change: { key: string }, _org_id: string) => {} };
  const live = {
    get: async (_org: string, name: string) => config[name],
    onUpdated: (listener: typeof state.updated) => {
      state.updated = listener;
    },
  };
  const sessions = {
    get: async () => ({
      metadata: state.session_strategy === null ? {} : { strategy: state.session_strategy },
    }),
  };
  return { state, settings: new LoopSettings(live as never, sessions as never, "default") };
}

test("prefers the requested strategy to the session's, and the session's to the org's", async () => {
  const { settings, state } = createSettings({ "kernel.strategy": "org" }, "own");
  expect((await settings.read(key, "requested")).strategy).toBe("requested");
  expect((await settings.read(key, undefined)).strategy).toBe("own");
  state.session_strategy = null;
  settings.forget(key);
  expect((await settings.read(key, undefined)).strategy).toBe("org");
  expect((await createSettings({}).settings.read(key, undefined)).strategy).toBe("default");
});

test("applies a changed setting of the org to the next turn and ignores invalid numbers", async () => {
  const config: Record<string, Json> = { "kernel.max_iterations": 7, "kernel.strategy": "a" };
  const { settings, state } = createSettings(config);
  expect(await settings.read(key, undefined)).toEqual({ strategy: "a", max_iterations: 7 });
  for (const [value, expected] of [
    [9, 9],
    [0, LOOP_LIMITS.iterations],
    [-3, LOOP_LIMITS.iterations],
    [1.5, LOOP_LIMITS.iterations],
    ["8", LOOP_LIMITS.iterations],
  ] as const) {
    config["kernel.max_iterations"] = value;
    state.updated({ key: "kernel.max_iterations" }, scope.org_id);
    expect((await settings.read(key, undefined)).max_iterations).toBe(expected);
  }
  config["kernel.strategy"] = "b";
  state.updated({ key: "kernel.strategy" }, scope.org_id);
  expect((await settings.read(key, undefined)).strategy).toBe("b");
});
