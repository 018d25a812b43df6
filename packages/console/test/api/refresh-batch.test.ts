import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createRefreshBatch } from "../../src/api/refresh-batch.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function createTestBatch() {
  const loaded: unknown[] = [];
  const state = { running: 0 };
  const batch = createRefreshBatch({
    isMutating: () => state.running,
    invalidateQueries: async (filters) => void loaded.push(filters?.queryKey?.[0]),
  });
  return { batch, state, loaded };
}

test("loads each list once for a burst of events", () => {
  const { batch, loaded } = createTestBatch();
  for (const noun of ["packages", "bindings", "packages"]) batch.add(noun);
  expect(loaded).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(loaded).toEqual(["packages", "bindings"]);
});

test("waits for running mutations before it reloads, but at most 2 s", () => {
  const { batch, state, loaded } = createTestBatch();
  state.running = 1;
  batch.add("packages");
  vi.advanceTimersByTime(1_000);
  expect(loaded).toEqual([]);
  state.running = 0;
  vi.advanceTimersByTime(100);
  expect(loaded).toEqual(["packages"]);
  state.running = 1;
  batch.add("bindings");
  vi.advanceTimersByTime(3_000);
  expect(loaded).toEqual(["packages", "bindings"]);
});
