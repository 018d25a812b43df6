/**
 * What a call's record keeps of stderr: all that its process wrote since the call started, redacted. Calls that
 * share a process share its stderr, so secrets of the others are taken out as well.
 */
import type { InvocationContext } from "@backplane/contract";
import type { Worker } from "./pool/worker.ts";
import { createRedactor, DELEGATION_TOKEN, REDACTED, secretsOf } from "./redact.ts";

export function stderrTail(worker: Worker, from: number, context: InvocationContext): string | null {
  const ring = worker.process.stderr;
  if (ring.total <= from) return null;
  const bytes = ring.since(from);
  // The cut may have gone through a character.
  let start = 0;
  while (start < 3 && start < bytes.length && (bytes[start]! & 0xc0) === 0x80) start++;
  const text = bytes.toString("utf8", start);
  const redactor = createRedactor([...secretsOf(context), ...worker.recent_secrets]);
  return redactor.excerpt(text).replace(DELEGATION_TOKEN, REDACTED);
}
