/**
 * The system-call filter of every sandboxed process, as bytes for sandbox-init. It kills processes that use another
 * architecture's calls, answers unknown calls with ENOSYS, so that programs fall back, refuses forbidden calls with
 * EPERM, and checks the arguments of a few calls.
 */
import { assemble, BPF, type Instruction } from "./assemble.ts";
import {
  EXAMINED_CALLS,
  type FilteredArch,
  FORBIDDEN_CALLS,
  LAST_KNOWN_CALL,
  numberOf,
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
  const is = (call: keyof typeof EXAMINED_CALLS, target: string): Instruction => ({
    code: BPF.jeq,
    k: numberOf(EXAMINED_CALLS[call], arch)!,
    when: target,
  });
  const forbidden = Object.values(FORBIDDEN_CALLS)
    .map((numbers) => numberOf(numbers, arch))
    .filter((number) => number !== null);
  return assemble([
    { code: BPF.load, k: OFFSET.arch },
    { code: BPF.jeq, k: AUDIT_ARCH[arch], otherwise: "kill" },
    { code: BPF.load, k: OFFSET.call },
    ...(arch === "x64" ? [{ code: BPF.jge, k: X32_BIT, when: "kill" }] : []),
    { code: BPF.jgt, k: LAST_KNOWN_CALL, when: "unknown" },
    // Its flags are in memory that a filter cannot read; without clone3 libc falls back to clone.
    is("clone3", "unknown"),
    is("clone", "clone"),
    is("socket", "socket"),
    is("socketpair", "socket"),
    is("ioctl", "ioctl"),
    ...forbidden.map((k): Instruction => ({ code: BPF.jeq, k, when: "forbid" })),
    { code: BPF.ret, k: RETURN.allow },

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
