/** What the two databases give; every port above is written once on top of it. */
import type { Soon } from "@backplane/contract";
import type { Dialect, Op } from "../ops/op.ts";
import type { WriteInput, WriteName, WriteResult } from "../ops/writes.ts";

export interface Backend {
  dialect: Dialect;
  /** The caller's time for an operation, or null where the database's own clock counts (see nowAt). */
  at(now: number): number | null;
  /** Resolves when it is on disk. Rejects with a BackplaneError, and then nothing of it was written. */
  write<N extends WriteName>(name: N, input: WriteInput<N>): Promise<WriteResult<N>>;
  /** Best effort: rides on the next commit. */
  later(rows: WriteInput<"appendProgress">): void;
  read<T>(op: (dialect: Dialect) => Op<T>): Promise<T>;
  /** As `read`, but gives damaged rows too: for what verifies hashes itself and says where they break. */
  readUnchecked<T>(op: (dialect: Dialect) => Op<T>): Promise<T>;
  /** A read that the request path makes all the time; `key` names it for a cache that is always fresh. */
  readHot<T>(key: string, op: (dialect: Dialect) => Op<T>): Soon<T>;
  onAppended(listener: () => void): () => void;
  /** This process committed events. */
  appended(): void;
  ping(): Promise<void>;
  close(): Promise<void>;
}
