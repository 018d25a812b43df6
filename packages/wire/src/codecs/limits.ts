import { WIRE_LIMITS } from "@backplane/contract";

/** An operator may raise `frame_bytes`; frames above its default are parsed in a worker thread. */
export interface FrameLimits {
  frame_bytes: number;
  header_bytes: number;
  json_depth: number;
}

export function frameLimits(limits: Partial<FrameLimits> = {}): FrameLimits {
  return {
    frame_bytes: limits.frame_bytes ?? WIRE_LIMITS.frame_bytes,
    header_bytes: limits.header_bytes ?? WIRE_LIMITS.header_bytes,
    json_depth: limits.json_depth ?? WIRE_LIMITS.json_depth,
  };
}
