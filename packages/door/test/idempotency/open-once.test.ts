import { isTerminal } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { guest, type House, openHouse, until, user } from "@backplane/test-kit/kernel/house";
import { manifest, tool } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { expect, test } from "vitest";

const content = manifest([tool("charge", {}, { effect_class: "non_idempotent_write" })]);
const charge = (house: House, digest = "d", caller = user) =>
  house.kernel.invocations.invokeOnce(caller, { export_id: "charge" }, "k", digest);

test("requests with one key open one call, however many race; another request is told of a conflict", async () => {
  const house = await openHouse();
  await house.bind(content);
  const all = await Promise.all(Array.from({ length: 10 }, () => charge(house)));
  expect(new Set(all.map(({ id }) => id)).size).toBe(1);
  expect(all.filter(({ ticket }) => ticket !== null)).toHaveLength(1);
  await until(() => house.runner.orders.length > 0);
  expect(await charge(house)).toEqual({ id: all[0]!.id, ticket: null });
  expect(house.runner.orders).toHaveLength(1);
  await expect(charge(house, "other")).rejects.toMatchObject({ code: "idempotency.conflict" });
});

test("a refused call takes no key: the next request is admitted on its own", async () => {
  const house = await openHouse();
  await house.bind(content);
  await expect(charge(house, "d", guest)).rejects.toMatchObject({ code: "policy.denied" });
  expect((await charge(house)).ticket).not.toBeNull();
});

test("a gateway that dies after the work began answers a repeat with the call that it opened", async () => {
  const first = await openHouse();
  await first.bind(content);
  first.runner.script = () => new Promise<never>(() => {});
  const { id } = await charge(first);
  await until(() => first.runner.running === 1);
  await first.crash();
  const second = await openHouse({ file: first.file });
  expect(await charge(second)).toEqual({ id, ticket: null });
  await until(async () => isTerminal((await second.kernel.invocations.get(user, id)).status));
  expect(await second.kernel.invocations.get(user, id)).toMatchObject({ error: { code: "outcome_unknown" } });
  expect(second.runner.orders).toEqual([]);
});

test("a gateway that dies before the call is on disk has taken no key", async () => {
  const first = await openHouse();
  await first.bind(content);
  // The write never comes back, as when the process is gone.
  const reached = new Promise<void>((resolve) => {
    first.store.invocations.open = (() => {
      resolve();
      return new Promise(() => {});
    }) as Store["invocations"]["open"];
  });
  void charge(first);
  await reached;
  await first.crash();
  const second = await openHouse({ file: first.file });
  const again = await charge(second);
  expect((await again.ticket!.settled).status).toBe("succeeded");
});

test("a key costs the call one read and no write of its own", async () => {
  const house = await openHouse();
  await house.bind(content);
  house.runner.script = () => ok();
  const writes: string[] = [];
  for (const name of ["begin", "finish", "abandon"] as const) {
    const { idempotency } = house.store;
    const plain = idempotency[name] as (...args: unknown[]) => Promise<never>;
    idempotency[name] = ((...args: unknown[]) => {
      writes.push(name);
      return plain.apply(idempotency, args);
    }) as never;
  }
  await (await charge(house)).ticket!.settled;
  expect(writes).toEqual([]);
});
