import { expect, test } from "vitest";
import { sampleBinding, samplePackage } from "../support/samples.ts";
import { freshOrg, type Subject } from "../support/subject.ts";

const HOUR = 3_600_000;

export function samplingCases(subject: () => Subject): void {
  async function createSampledBinding() {
    const scope = freshOrg();
    const { packages, bindings } = subject().store;
    await packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const binding = sampleBinding({ scope });
    await bindings.create(binding, {});
    const countUse = (count: number, now: number) =>
      subject().store.sampling.countUse(scope.org_id, binding.binding_id, count, HOUR, now);
    return { scope, binding_id: binding.binding_id, countUse };
  }

  test("limits the uses within any hour", async () => {
    const { countUse } = await createSampledBinding();
    const base_time = 1_700_000_000_000;
    expect(await countUse(2, base_time)).toBe(true);
    expect(await countUse(2, base_time + HOUR / 2)).toBe(true);
    expect(await countUse(2, base_time + HOUR - 1)).toBe(false);
    // A refusal does not count; each use expires after an hour.
    expect(await countUse(2, base_time + HOUR)).toBe(true);
    expect(await countUse(2, base_time + HOUR + 1)).toBe(false);
    expect(await countUse(3, base_time + HOUR + 1), "the operator raised the limit").toBe(true);
    expect(await countUse(1, base_time + HOUR + 2), "the operator lowered the limit").toBe(false);
  });

  test("admits as many concurrent uses as the limit allows", async () => {
    const { countUse } = await createSampledBinding();
    const results = await Promise.all(Array.from({ length: 20 }, () => countUse(7, 1_700_000_000_000)));
    expect(results.filter(Boolean)).toHaveLength(7);
  });

  test("ignores uses that a wrong clock recorded far in the future", async () => {
    const { countUse } = await createSampledBinding();
    expect(await countUse(1, 1_900_000_000_000)).toBe(true);
    expect(await countUse(1, 1_700_000_000_000)).toBe(true);
    expect(await countUse(1, 1_700_000_000_000 - 60_000), "uses still count after a small step back").toBe(
      false,
    );
  });

  test("refuses a binding of another org, and removes the uses with their binding", async () => {
    const { scope, binding_id, countUse } = await createSampledBinding();
    const { sampling, bindings } = subject().store;
    const base_time = 1_700_000_000_000;
    expect(await sampling.countUse("org_other", binding_id, 9, HOUR, base_time)).toBe(false);
    expect(await countUse(1, base_time)).toBe(true);
    const { binding } = (await bindings.get(scope, binding_id))!;
    await bindings.remove(scope, binding_id, {});
    expect(await countUse(1, base_time)).toBe(false);
    await bindings.create(binding, {});
    expect(await countUse(1, base_time)).toBe(true);
  });
}
