/**
 * A small assembler for classic BPF as used by seccomp: instructions with named jump targets in, `struct
 * sock_filter[]` bytes out.
 */

export interface Instruction {
  code: number;
  k: number;
  /** Jump targets; without one the next instruction follows. */
  when?: string;
  otherwise?: string;
  /** The name of this instruction. */
  label?: string;
}

/** Opcodes: load a 32-bit word of `struct seccomp_data`, return, and conditional jumps. */
export const BPF = { load: 0x20, ret: 0x06, jeq: 0x15, jge: 0x35, jset: 0x45 } as const;

const INSTRUCTION_BYTES = 8;
const MAX_JUMP = 255;

export function assemble(program: readonly Instruction[]): Buffer {
  const labels = new Map<string, number>();
  program.forEach(({ label }, index) => {
    if (label !== undefined) labels.set(label, index);
  });
  const bytes = Buffer.alloc(program.length * INSTRUCTION_BYTES);
  program.forEach((instruction, index) => {
    const jump = (target: string | undefined) => {
      if (target === undefined) return 0;
      const distance = (labels.get(target) ?? -1) - index - 1;
      if (distance < 0 || distance > MAX_JUMP)
        throw new Error(`a filter cannot jump from ${index} to ${target}`);
      return distance;
    };
    const offset = index * INSTRUCTION_BYTES;
    bytes.writeUInt16LE(instruction.code, offset);
    bytes.writeUInt8(jump(instruction.when), offset + 2);
    bytes.writeUInt8(jump(instruction.otherwise), offset + 3);
    bytes.writeUInt32LE(instruction.k >>> 0, offset + 4);
  });
  return bytes;
}
