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

  test("so many uses are counted in any hour, and no more", async () => {
    const { take } = await bound();
    const t = 1_700_000_000_000;
    expect(await take(2, t)).toBe(true);
    expect(await take(2, t + HOUR / 2)).toBe(true);
    expect(await take(2, t + HOUR - 1)).toBe(false);
    // A refusal costs nothing; each use is free again an hour after it.
    expect(await take(2, t + HOUR)).toBe(true);
    expect(await take(2, t + HOUR + 1)).toBe(false);
    expect(await take(3, t + HOUR + 1), "the operator gave more").toBe(true);
    expect(await take(1, t + HOUR + 2), "or less").toBe(false);
  });

  test("of many at once as many are let in as there are", async () => {
    const { take } = await bound();
    const taken = await Promise.all(Array.from({ length: 20 }, () => take(7, 1_700_000_000_000)));
    expect(taken.filter(Boolean)).toHaveLength(7);
  });

  test("a clock that was far ahead does not close it for good", async () => {
    const { take } = await bound();
    expect(await take(1, 1_900_000_000_000)).toBe(true);
    expect(await take(1, 1_700_000_000_000)).toBe(true);
    expect(await take(1, 1_700_000_000_000 - 60_000), "a small step back counts on").toBe(false);
  });

  test("another org's binding is none, and what was counted goes with its binding", async () => {
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
