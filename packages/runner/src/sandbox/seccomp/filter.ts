/**
 * The system-call filter of every sandboxed process, as bytes for sandbox-init. It kills processes that use another
 * architecture's calls, fails unknown calls with ENOSYS, so that programs use a fallback, refuses forbidden calls with
 * EPERM, and checks the arguments of a few calls. The call is found by binary search: at each start the kernel runs
 * the filter for every call number to learn which calls are always allowed (benchmark sandbox.rate).
 */
import { assemble, BPF, type Instruction } from "./assemble.ts";
import {
  EXAMINED_CALLS,
  type FilteredArch,
  FORBIDDEN_CALLS,
  findCallNumber,
  LAST_KNOWN_CALL,
} from "./system-calls.ts";

const AUDIT_ARCH: Record<FilteredArch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };
const X32_BIT = 0x40000000;
const OFFSET = { call: 0, arch: 4 } as const;
/** The low half of an argument; both architectures are little-endian. */
const argument = (index: number) => 16 + index * 8;

const RETURN = { kill: 0x80000000, allow: 0x7fff0000, errno: 0x00050000 } as const;
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACES = 0x7e020000;
const FAMILY = { unix: 1, inet: 2, inet6: 10, netlink: 16 } as const;
const NETLINK_ROUTE = 0;
/** Both insert characters into a terminal as if they were typed. */
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;

export function filteredArch(arch: string): FilteredArch | null {
  return arch === "x64" || arch === "arm64" ? arch : null;
}

export function systemCallFilter(arch: FilteredArch): Buffer {
  return assemble([
    { code: BPF.load, k: OFFSET.arch },
    { code: BPF.jeq, k: AUDIT_ARCH[arch], otherwise: "kill" },
    { code: BPF.load, k: OFFSET.call },
    ...(arch === "x64" ? [{ code: BPF.jge, k: X32_BIT, when: "kill" }] : []),
    ...searchTree(rangesOf(arch)),

    { label: "clone", code: BPF.load, k: argument(0) },
    { code: BPF.jset, k: NEW_NAMESPACES, when: "forbid", otherwise: "allow" },

    // AF_VSOCK, AF_PACKET, AF_ALG and similar bypass the network namespace or reach rarely used kernel code.
    { label: "socket", code: BPF.load, k: argument(0) },
    { code: BPF.jeq, k: FAMILY.unix, when: "allow" },
    { code: BPF.jeq, k: FAMILY.inet, when: "allow" },
    { code: BPF.jeq, k: FAMILY.inet6, when: "allow" },
    { code: BPF.jeq, k: FAMILY.netlink, otherwise: "no-family" },
    { code: BPF.load, k: argument(2) },
    { code: BPF.jeq, k: NETLINK_ROUTE, when: "allow", otherwise: "no-family" },

    { label: "ioctl", code: BPF.load, k: argument(1) },
    { code: BPF.jeq, k: TIOCSTI, when: "forbid" },
    { code: BPF.jeq, k: TIOCLINUX, when: "forbid" },

    { label: "allow", code: BPF.ret, k: RETURN.allow },
    { label: "forbid", code: BPF.ret, k: RETURN.errno | EPERM },
    { label: "no-family", code: BPF.ret, k: RETURN.errno | EAFNOSUPPORT },
    { label: "unknown", code: BPF.ret, k: RETURN.errno | ENOSYS },
    { label: "kill", code: BPF.ret, k: RETURN.kill },
  ]);
}

/** The calls from number `from` up to the next range. `target` is the label of the instruction that decides them. */
interface CallRange {
  from: number;
  target: string;
}

const EXAMINED_AT: Record<keyof typeof EXAMINED_CALLS, string> = {
  clone: "clone",
  // Its flags are in memory that a filter cannot read; without clone3 libc falls back to clone.
  clone3: "unknown",
  socket: "socket",
  socketpair: "socket",
  ioctl: "ioctl",
};

function rangesOf(arch: FilteredArch): CallRange[] {
  const targets = new Map<number | null, string>();
  for (const numbers of Object.values(FORBIDDEN_CALLS)) targets.set(findCallNumber(numbers, arch), "forbid");
  for (const [call, target] of Object.entries(EXAMINED_AT)) {
    targets.set(findCallNumber(EXAMINED_CALLS[call as keyof typeof EXAMINED_CALLS], arch), target);
  }
  const ranges: CallRange[] = [];
  for (let from = 0; from <= LAST_KNOWN_CALL + 1; from++) {
    const target = from > LAST_KNOWN_CALL ? "unknown" : (targets.get(from) ?? "allow");
    if (ranges.at(-1)?.target !== target) ranges.push({ from, target });
  }
  return ranges;
}

/** A balanced tree with one comparison for each pair of neighboring ranges. */
function searchTree(ranges: readonly CallRange[], label?: string): Instruction[] {
  const middle = ranges.length >> 1;
  const [low, high] = [ranges.slice(0, middle), ranges.slice(middle)];
  const { from } = high[0]!;
  const chooseTarget = (half: readonly CallRange[], name: string) =>
    half.length === 1 ? half[0]!.target : name;
  const [below, above] = [`below ${from}`, `from ${from}`];
  return [
    {
      ...(label === undefined ? {} : { label }),
      code: BPF.jge,
      k: from,
      when: chooseTarget(high, above),
      otherwise: chooseTarget(low, below),
    },
    ...(low.length === 1 ? [] : searchTree(low, below)),
    ...(high.length === 1 ? [] : searchTree(high, above)),
  ];
}
