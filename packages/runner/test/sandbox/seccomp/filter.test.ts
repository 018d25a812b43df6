import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { filteredArch, systemCallFilter } from "../../../src/sandbox/seccomp/filter.ts";
import {
  EXAMINED_CALLS,
  type FilteredArch,
  FORBIDDEN_CALLS,
  findCallNumber,
  LAST_KNOWN_CALL,
} from "../../../src/sandbox/seccomp/system-calls.ts";

const ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
const ARCHITECTURES = ["x64", "arm64"] as const;
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const errno = (number: number) => 0x00050000 | number;
const [EPERM, ENOSYS, EAFNOSUPPORT] = [errno(1), errno(38), errno(97)];

/** Interprets the few instructions that a filter uses, as the kernel would, on a given seccomp_data. */
function decide(
  arch: FilteredArch,
  call: number,
  args: readonly number[] = [],
  audit: number = ARCH[arch],
  steps = { count: 0 },
) {
  const program = systemCallFilter(arch);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call >>> 0, 0);
  data.writeUInt32LE(audit, 4);
  for (const [index, value] of args.entries()) data.writeUInt32LE(value >>> 0, 16 + index * 8);
  let accumulator = 0;
  for (let at = 0; at < program.length; at += 8) {
    steps.count++;
    const code = program.readUInt16LE(at);
    const k = program.readUInt32LE(at + 4);
    const jump = (holds: boolean) => {
      at += program.readUInt8(at + (holds ? 2 : 3)) * 8;
    };
    if (code === 0x06) return k;
    if (code === 0x20) accumulator = data.readUInt32LE(k);
    else if (code === 0x15) jump(accumulator === k);
    else if (code === 0x35) jump(accumulator >= k);
    else if (code === 0x45) jump((accumulator & k) !== 0);
    else throw new Error(`no such instruction: ${code}`);
  }
  throw new Error("the filter runs past its end");
}

const examined = (name: keyof typeof EXAMINED_CALLS, arch: FilteredArch) =>
  findCallNumber(EXAMINED_CALLS[name], arch)!;

test.each(ARCHITECTURES)("%s: refuses every forbidden call and allows ordinary ones", (arch) => {
  for (const numbers of Object.values(FORBIDDEN_CALLS)) {
    const number = findCallNumber(numbers, arch);
    if (number !== null) expect(decide(arch, number)).toBe(EPERM);
  }
  const ordinary = arch === "x64" ? [0, 1, 9, 59, 60, 202, 231, 257] : [56, 63, 64, 93, 98, 221, 222];
  for (const number of ordinary) expect(decide(arch, number)).toBe(ALLOW);
});

test.each(ARCHITECTURES)("%s: allows every call that is neither forbidden, examined nor unknown", (arch) => {
  const listed = new Set([
    ...Object.values(FORBIDDEN_CALLS).map((numbers) => findCallNumber(numbers, arch)),
    ...Object.values(EXAMINED_CALLS).map((numbers) => findCallNumber(numbers, arch)),
  ]);
  for (let call = 0; call <= LAST_KNOWN_CALL; call++) {
    if (!listed.has(call)) expect([call, decide(arch, call)]).toEqual([call, ALLOW]);
  }
  for (const call of [LAST_KNOWN_CALL + 1, LAST_KNOWN_CALL + 1_000, 0x3fffffff]) {
    expect([call, decide(arch, call)]).toEqual([call, ENOSYS]);
  }
});

test.each(ARCHITECTURES)("%s: decides every call after a few comparisons", (arch) => {
  for (let call = 0; call <= LAST_KNOWN_CALL; call++) {
    const steps = { count: 0 };
    decide(arch, call, [], ARCH[arch], steps);
    expect(steps.count).toBeLessThan(20);
  }
});

test.each(ARCHITECTURES)(
  "%s: kills calls of another architecture and answers unknown calls with ENOSYS",
  (arch) => {
    expect(decide(arch, 0, [], 0x40000003)).toBe(KILL);
    expect(decide(arch, 0, [], ARCH[arch === "x64" ? "arm64" : "x64"])).toBe(KILL);
    if (arch === "x64") expect(decide(arch, 0x40000000)).toBe(KILL);
    expect(decide(arch, LAST_KNOWN_CALL + 1)).toBe(ENOSYS);
    expect(decide(arch, examined("clone3", arch))).toBe(ENOSYS);
  },
);

test.each(ARCHITECTURES)("%s: allows threads and forks but no new namespaces", (arch) => {
  const clone = examined("clone", arch);
  expect(decide(arch, clone, [17])).toBe(ALLOW);
  expect(decide(arch, clone, [0x003d0f00])).toBe(ALLOW);
  for (let bit = 0; bit < 32; bit++) {
    const flag = (1 << bit) >>> 0;
    const namespace = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000];
    expect(decide(arch, clone, [flag | 17])).toBe(namespace.includes(flag) ? EPERM : ALLOW);
  }
});

test.each(ARCHITECTURES)("%s: allows four socket families only", (arch) => {
  for (const call of [examined("socket", arch), examined("socketpair", arch)]) {
    for (let family = 0; family < 64; family++) {
      expect(decide(arch, call, [family, 1, 0])).toBe([1, 2, 10, 16].includes(family) ? ALLOW : EAFNOSUPPORT);
    }
    // Of netlink, only the route protocol is allowed, which lists interfaces; not netfilter, audit or kobject.
    for (const protocol of [4, 9, 12, 15]) expect(decide(arch, call, [16, 3, protocol])).toBe(EAFNOSUPPORT);
  }
});

test.each(ARCHITECTURES)("%s: refuses ioctls that insert input into a terminal", (arch) => {
  const ioctl = examined("ioctl", arch);
  expect(decide(arch, ioctl, [0, 0x5412])).toBe(EPERM);
  expect(decide(arch, ioctl, [0, 0x541c])).toBe(EPERM);
  expect(decide(arch, ioctl, [0, 0x5401])).toBe(ALLOW);
});

test("has no filter for other architectures", () => {
  expect(filteredArch("x64")).toBe("x64");
  expect(filteredArch("riscv64")).toBeNull();
});

test("uses the numbers of the system's headers", () => {
  const calls = { ...FORBIDDEN_CALLS, ...EXAMINED_CALLS };
  const names = Object.keys(calls) as (keyof typeof calls)[];
  const lines = names.map((name) => `#ifdef __NR_${name}\n${name} __NR_${name}\n#endif`).join("\n");
  const read = (header: string) => {
    const input = `#define __ARCH_WANT_SYS_CLONE3\n#include <${header}>\n@\n${lines.replaceAll(/^(\w+) (__NR_\w+)$/gm, '"$1" $2')}\n`;
    const text = execFileSync("/usr/bin/cc", ["-E", "-P", "-"], { input, encoding: "utf8" });
    return new Map(
      [...text.slice(text.indexOf("@")).matchAll(/"(\w+)" (\d+)/g)].map(([, name, number]) => [
        name,
        Number(number),
      ]),
    );
  };
  const native = read("sys/syscall.h");
  const generic = read("asm-generic/unistd.h");
  const own_arch = filteredArch(process.arch)!;
  for (const name of names) {
    expect([name, native.get(name) ?? null]).toEqual([name, findCallNumber(calls[name], own_arch)]);
    // The generic list is that of arm64.
    expect([name, generic.get(name) ?? null]).toEqual([name, findCallNumber(calls[name], "arm64")]);
  }
});
