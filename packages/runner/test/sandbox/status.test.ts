import { expect, test } from "vitest";
import { checkProbe, statusOf } from "../../src/sandbox/status.ts";

const GOOD = {
  Uid: "1000\t1000\t1000\t1000",
  CapInh: "0000000000000000",
  CapPrm: "0000000000000000",
  CapEff: "0000000000000000",
  CapBnd: "0000000000000000",
  CapAmb: "0000000000000000",
  NoNewPrivs: "1",
  Seccomp: "2",
};
const text = (fields: Record<string, string>) =>
  Object.entries(fields)
    .map(([name, value]) => `${name}:\t${value}\n`)
    .join("");

test("accepts a test process only if the kernel confirms every property", () => {
  expect(checkProbe(text(GOOD), 1000)).toBeNull();
  const bad: [keyof typeof GOOD, string][] = [
    ["Uid", "1000\t0\t1000\t1000"],
    ["CapInh", "0000000000000400"],
    ["CapAmb", "0000000000000400"],
    ["CapPrm", "0000000000000001"],
    ["CapEff", "000001ffffffffff"],
    ["CapBnd", "000001ffffffffff"],
    ["NoNewPrivs", "0"],
    ["Seccomp", "0"],
  ];
  for (const [name, value] of bad) expect(checkProbe(text({ ...GOOD, [name]: value }), 1000)).toContain(name);
  for (const [name] of bad) {
    const { [name]: _, ...rest } = GOOD;
    expect(checkProbe(text(rest as Record<string, string>), 1000)).toContain(`${name} absent`);
  }
  expect(checkProbe("", 1000)).not.toBeNull();
});

test("is unavailable if a required check failed, and only reports a failed optional check", () => {
  const ok = { name: "backend", ok: true, message: "embedded" };
  expect(statusOf([])).toMatchObject({ available: false });
  expect(statusOf([ok, { name: "self-test", ok: false, message: "no", fix: "do" }])).toMatchObject({
    available: false,
    reason: "no",
    fix: "do",
  });
  expect(statusOf([ok, { name: "cgroups", ok: false, message: "no cgroups", fix: "be root" }])).toMatchObject(
    {
      available: true,
      reason: "embedded; no cgroups",
      fix: "be root",
    },
  );
});
