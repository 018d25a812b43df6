import type { Json } from "@backplane/contract";
import { LOOP_LIMITS } from "@backplane/contract";
import { scope } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { LoopSettings } from "../../src/loop/settings.ts";

const key = { scope, workspace: "/w", session_id: "s1" };

function createSettings(
  config: Record<string, Json>,
  { strategy = null, shared = false }: { strategy?: string | null; shared?: boolean } = {},
) {
  const state = { strategy, reads: 0, delay: Promise.resolve() };
  const store = {
    shared,
    sessions: {
      async get() {
        state.reads++;
        const metadata = state.strategy === null ? {} : { strategy: state.strategy };
        await state.delay;
        return { metadata };
      },
    },
  };
  const read_config = { get: async (_org: string, name: string) => config[name] };
  return { state, settings: new LoopSettings(read_config, store as never, "default") };
}

test("prefers the requested strategy to the session's, and the session's to the org's", async () => {
  const { settings, state } = createSettings({ "kernel.strategy": "org" }, { strategy: "own" });
  expect((await settings.read(key, "requested")).strategy).toBe("requested");
  expect((await settings.read(key, undefined)).strategy).toBe("own");
  state.strategy = null;
  settings.forget(key);
  expect((await settings.read(key, undefined)).strategy).toBe("org");
  expect((await createSettings({}).settings.read(key, undefined)).strategy).toBe("default");
});

test("applies a changed setting of the org to the next turn and ignores invalid numbers", async () => {
  const config: Record<string, Json> = { "kernel.max_iterations": 7, "kernel.strategy": "a" };
  const { settings } = createSettings(config);
  expect(await settings.read(key, undefined)).toEqual({ strategy: "a", max_iterations: 7 });
  for (const [value, expected] of [
    [9, 9],
    [0, LOOP_LIMITS.iterations],
    [-3, LOOP_LIMITS.iterations],
    [1.5, LOOP_LIMITS.iterations],
    ["8", LOOP_LIMITS.iterations],
  ] as const) {
    config["kernel.max_iterations"] = value;
    expect((await settings.read(key, undefined)).max_iterations).toBe(expected);
  }
  config["kernel.strategy"] = "b";
  expect((await settings.read(key, undefined)).strategy).toBe("b");
});

test("reads the strategy of a session again for each turn only if other gateways can change it", async () => {
  for (const [shared, expected, reads] of [
    [true, "changed", 2],
    [false, "own", 1],
  ] as const) {
    const { settings, state } = createSettings({}, { strategy: "own", shared });
    expect((await settings.read(key, undefined)).strategy).toBe("own");
    state.strategy = "changed";
    expect((await settings.read(key, undefined)).strategy).toBe(expected);
    expect(state.reads).toBe(reads);
  }
});

test("does not cache a strategy that changed while it was being read", async () => {
  const { settings, state } = createSettings({}, { strategy: "own" });
  const gate = Promise.withResolvers<void>();
  state.delay = gate.promise;
  const reading = settings.read(key, undefined);
  await expect.poll(() => state.reads).toBe(1);
  state.strategy = "changed";
  settings.forget(key);
  gate.resolve();
  await reading;
  expect((await settings.read(key, undefined)).strategy).toBe("changed");
});
