/**
 * A connection or datagram of a process that did not go through a listener of the gateway and therefore ended inside the
 * sandbox. PID 1 reports it (sandbox-init/trace.c). The plugin controls the address, the port and the question.
 */
import type { Destination } from "./destination.ts";
import type { RefusalReason } from "./refusals.ts";

export interface DirectAttempt {
  protocol: "tcp" | "udp";
  address: string;
  port: number;
  count: number;
  /** The bytes of a DNS query from its question section on; null for other attempts. */
  question: Buffer | null;
}

export function refusalOf(attempt: DirectAttempt): { destination: Destination; reason: RefusalReason } {
  const { protocol, address, port, question } = attempt;
  const name = question === null ? null : readQuestion(question);
  if (name !== null) return { destination: { host: name, port }, reason: "direct.lookup" };
  const reason = protocol === "tcp" ? "direct.connection" : "direct.datagram";
  return { destination: { host: address, port }, reason };
}

/** Null if the question is not a name, e.g. because it is cut off. A query contains no compression pointers. */
function readQuestion(bytes: Buffer): string | null {
  const labels: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes[at]!;
    if (length === 0) return labels.length === 0 ? null : labels.join(".").toLowerCase();
    if (length > MAX_LABEL) return null;
    labels.push(bytes.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return null;
}

const MAX_LABEL = 63;
