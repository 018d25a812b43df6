import { QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { ConsoleQueryClient } from "../../src/api/query-client.ts";

/** A mounted query whose loads the test resolves one by one. */
function mountQuery() {
  const queries = new ConsoleQueryClient({ defaultOptions: { queries: { retry: false } } });
  const loads: PromiseWithResolvers<string>[] = [];
  const observer = new QueryObserver(queries, {
    queryKey: ["sessions", "runs"],
    queryFn: () => {
      loads.push(Promise.withResolvers<string>());
      return loads.at(-1)!.promise;
    },
  });
  observer.subscribe(() => {});
  return { queries, loads, data: () => observer.getCurrentResult().data };
}

test("loads again if the data changed during the first load", async () => {
  const { queries, loads, data } = mountQuery();
  const refreshed = queries.invalidateQueries({ queryKey: ["sessions"] });
  loads[0]!.resolve("running");
  await expect.poll(() => loads.length).toBe(2);
  loads[1]!.resolve("completed");
  await refreshed;
  expect(data()).toBe("completed");
});

test("loads again if the data changed during a first load that fails", async () => {
  const { queries, loads, data } = mountQuery();
  const refreshed = queries.invalidateQueries({ queryKey: ["sessions"] });
  loads[0]!.reject(new Error("not found"));
  await expect.poll(() => loads.length).toBe(2);
  loads[1]!.resolve("created");
  await refreshed;
  expect(data()).toBe("created");
});

test("loads again once for a change after the first load, but not for a change of another noun", async () => {
  const { queries, loads, data } = mountQuery();
  const elsewhere = queries.invalidateQueries({ queryKey: ["packages"] });
  loads[0]!.resolve("running");
  await elsewhere;
  const refreshed = queries.invalidateQueries({ queryKey: ["sessions"] });
  await expect.poll(() => loads.length).toBe(2);
  loads[1]!.resolve("completed");
  await refreshed;
  expect([data(), loads.length]).toEqual(["completed", 2]);
});
