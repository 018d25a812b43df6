import { type BusPayload, type JsonObject, KERNEL_SESSION } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import type { KernelPort } from "../bus/bus-port.ts";

/** Publishes the start and the end of a compaction on the session `kernel`, whoever compacts. */
export type CompactionPublisher = <K extends "started" | "completed" | "failed">(
  key: SessionKey,
  kind: K,
  payload: BusPayload<`session.compaction.${K}`>,
) => void;

export function createCompactionPublisher(port: Pick<KernelPort, "tryPublish">): CompactionPublisher {
  return ({ scope }, kind, payload) => {
    port.tryPublish(`session.compaction.${kind}` as string, payload as JsonObject, {
      session_id: KERNEL_SESSION,
      scope,
    });
  };
}
