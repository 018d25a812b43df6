import { expect, test } from "vitest";
import { sampleBinding, samplePackage } from "./samples.ts";
import { freshOrg, type Subject } from "./subject.ts";

const HOUR = 3_600_000;

export function samplingCases(subject: () => Subject): void {
  async function bound() {
    const scope = freshOrg();
    const { packages, bindings } = subject().store;
    await packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const binding = sampleBinding({ scope });
    await bindings.create(binding, {});
    const take = (count: number, now: number) =>
      subject().store.sampling.take(scope.org_id, binding.binding_id, count, HOUR, now);
    return { scope, binding_id: binding.binding_id, take };
  }

  test("limits the uses within any hour", async () => {
    const { take } = await bound();
    const t = 1_700_000_000_000;
    expect(await take(2, t)).toBe(true);
    expect(await take(2, t + HOUR / 2)).toBe(true);
    expect(await take(2, t + HOUR - 1)).toBe(false);
    // A refusal does not count; each use expires after an hour.
    expect(await take(2, t + HOUR)).toBe(true);
    expect(await take(2, t + HOUR + 1)).toBe(false);
    expect(await take(3, t + HOUR + 1), "the operator raised the limit").toBe(true);
    expect(await take(1, t + HOUR + 2), "or lowered it").toBe(false);
  });

  test("admits as many concurrent uses as the limit allows", async () => {
    const { take } = await bound();
    const taken = await Promise.all(Array.from({ length: 20 }, () => take(7, 1_700_000_000_000)));
    expect(taken.filter(Boolean)).toHaveLength(7);
  });

  test("ignores uses that a wrong clock recorded far in the future", async () => {
    const { take } = await bound();
    expect(await take(1, 1_900_000_000_000)).toBe(true);
    expect(await take(1, 1_700_000_000_000)).toBe(true);
    expect(await take(1, 1_700_000_000_000 - 60_000), "uses still count after a small step back").toBe(false);
  });

  test("refuses a binding of another org, and removes the uses with their binding", async () => {
    const { scope, binding_id, take } = await bound();
    const { sampling, bindings } = subject().store;
    const t = 1_700_000_000_000;
    expect(await sampling.take("org_other", binding_id, 9, HOUR, t)).toBe(false);
    expect(await take(1, t)).toBe(true);
    const { binding } = (await bindings.get(scope, binding_id))!;
    await bindings.remove(scope, binding_id, {});
    expect(await take(1, t)).toBe(false);
    await bindings.create(binding, {});
    expect(await take(1, t)).toBe(true);
  });
}
