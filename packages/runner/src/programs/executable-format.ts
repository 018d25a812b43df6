/** Detects the format of a program from its first bytes, to explain why it does not start. */
import { open } from "node:fs/promises";

export type ExecutableFormat =
  | { kind: "elf" | "mach-o"; os: "linux" | "darwin"; arch: string }
  | { kind: "pe" }
  | { kind: "script"; interpreter: string; argument: string | null; carriage_return: boolean }
  | { kind: "empty" }
  | { kind: "text" }
  | { kind: "unknown" };

const HEAD_BYTES = 512;

const ELF_MACHINES: Record<number, string> = {
  3: "ia32",
  8: "mips",
  20: "ppc",
  21: "ppc64",
  22: "s390x",
  40: "arm",
  62: "x64",
  183: "arm64",
  243: "riscv64",
  258: "loong64",
};
/** Bit 24 marks the 64-bit variant of a CPU. */
const MACH_CPUS: Record<number, string> = { 7: "ia32", 12: "arm", 16777223: "x64", 16777228: "arm64" };

export async function readExecutableFormat(path: string): Promise<ExecutableFormat> {
  const file = await open(path, "r");
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0);
    return executableFormatOf(head.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

export function executableFormatOf(head: Buffer): ExecutableFormat {
  if (head.length === 0) return { kind: "empty" };
  if (head[0] === 0x23 && head[1] === 0x21) return scriptOf(head);
  if (head.length >= 20 && head.readUInt32BE(0) === 0x7f454c46) {
    const machine = head[5] === 2 ? head.readUInt16BE(18) : head.readUInt16LE(18);
    return { kind: "elf", os: "linux", arch: ELF_MACHINES[machine] ?? `machine ${machine}` };
  }
  const magic = head.length >= 8 ? head.readUInt32LE(0) : 0;
  if (magic === 0xfeedface || magic === 0xfeedfacf) {
    const cpu = head.readUInt32LE(4);
    return { kind: "mach-o", os: "darwin", arch: MACH_CPUS[cpu] ?? `cpu ${cpu}` };
  }
  // A universal binary lists one or more architectures, big-endian.
  if (head.length >= 12 && head.readUInt32BE(0) === 0xcafebabe && head.readUInt32BE(4) < 16) {
    const archs: string[] = [];
    for (let i = 0; i < head.readUInt32BE(4) && 12 + i * 20 <= head.length; i++) {
      const cpu = head.readUInt32BE(8 + i * 20);
      archs.push(MACH_CPUS[cpu] ?? `cpu ${cpu}`);
    }
    return { kind: "mach-o", os: "darwin", arch: archs.join(" and ") };
  }
  if (head[0] === 0x4d && head[1] === 0x5a) return { kind: "pe" };
  return { kind: head.includes(0) ? "unknown" : "text" };
}

function scriptOf(head: Buffer): ExecutableFormat {
  const end = head.indexOf(0x0a);
  const line = head.subarray(2, end < 0 ? head.length : end).toString("utf8");
  const carriage_return = line.endsWith("\r");
  const [interpreter = "", ...rest] = line.trim().split(/[ \t]+/);
  return { kind: "script", interpreter, argument: rest.join(" ") || null, carriage_return };
}
