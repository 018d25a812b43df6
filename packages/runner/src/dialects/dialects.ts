import type { Dialect } from "./dialect.ts";
import { sideProcess } from "./side-process.ts";
import { vaiRpc } from "./vai-rpc.ts";

const DIALECTS: readonly Dialect[] = [vaiRpc, sideProcess];

export function dialectFor(protocol: string): Dialect | null {
  return DIALECTS.find((dialect) => dialect.protocol === protocol) ?? null;
}
