import { isTerminal } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  createTestKernel,
  guest,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const content = manifest([toolExport("charge", {}, { effect_class: "non_idempotent_write" })]);
const charge = (fixture: TestKernel, digest = "d", caller = user) =>
  fixture.kernel.invocations.invokeOnce(caller, { export_id: "charge" }, "k", digest);

test("opens one call for racing requests with one key and rejects a different request with that key", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content);
  const all = await Promise.all(Array.from({ length: 10 }, () => charge(fixture)));
  expect(new Set(all.map(({ id }) => id)).size).toBe(1);
  expect(all.filter(({ ticket }) => ticket !== null)).toHaveLength(1);
  await until(() => fixture.runner.requests.length > 0);
  expect(await charge(fixture)).toEqual({ id: all[0]!.id, ticket: null });
  expect(fixture.runner.requests).toHaveLength(1);
  await expect(charge(fixture, "other")).rejects.toMatchObject({ code: "idempotency.conflict" });
});

test("claims no key for a refused call", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content);
  await expect(charge(fixture, "d", guest)).rejects.toMatchObject({ code: "policy.denied" });
  expect((await charge(fixture)).ticket).not.toBeNull();
});

test("gives a repeated request the id of the call that was opened before the gateway died", async () => {
  const first = await createTestKernel();
  await first.bind(content);
  first.runner.script = () => new Promise<never>(() => {});
  const { id } = await charge(first);
  await until(() => first.runner.running === 1);
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  expect(await charge(second)).toEqual({ id, ticket: null });
  await until(async () => isTerminal((await second.kernel.invocations.get(user, id)).status));
  expect(await second.kernel.invocations.get(user, id)).toMatchObject({ error: { code: "outcome_unknown" } });
  expect(second.runner.requests).toEqual([]);
});

test("claims no key if the gateway dies before the call is on disk", async () => {
  const first = await createTestKernel();
  await first.bind(content);
  // The write never resolves, as if the process had died.
  const reached = new Promise<void>((resolve) => {
    first.store.invocations.open = (() => {
      resolve();
      return new Promise(() => {});
    }) as Store["invocations"]["open"];
  });
  void charge(first);
  await reached;
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  const again = await charge(second);
  expect((await again.ticket!.settled).status).toBe("succeeded");
});

test("needs no extra write for an idempotency key", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content);
  fixture.runner.script = () => ok();
  const writes: string[] = [];
  for (const name of ["begin", "finish", "abandon"] as const) {
    const { idempotency } = fixture.store;
    const original = idempotency[name] as (...args: unknown[]) => Promise<never>;
    idempotency[name] = ((...args: unknown[]) => {
      writes.push(name);
      return original.apply(idempotency, args);
    }) as never;
  }
  await (await charge(fixture)).ticket!.settled;
  expect(writes).toEqual([]);
});
