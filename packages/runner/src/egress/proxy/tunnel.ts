/**
 * Bytes both ways to a checked target. What the client says first is looked at: TLS must name the host that was asked
 * for, HTTP goes through the relay that reads every request. Known residue: behind a name that is allowed, TLS hides
 * which of its server's names is spoken to (domain fronting), and an allowed host can be told anything.
 */
import type { Socket } from "node:net";
import type { Target } from "../destinations/policy.ts";
import type { Passage } from "./connection.ts";
import { type Opening, readOpening } from "./first-bytes.ts";
import { peek } from "./peek.ts";
import { pump } from "./pump.ts";

export interface Answers {
  connected(): void;
  /** Nobody answers at the target, or there is no place left. */
  failed(why: "unreachable" | "limit"): void;
}

const TOO_LONG = { kind: "refused", reason: "request.malformed", detail: "too long" } as const;

/** `http` takes the client over when it speaks HTTP. */
export async function tunnel(
  passage: Passage,
  target: Target,
  answers: Answers,
  http: (target: Target) => void,
): Promise<void> {
  // The relay dials for each request itself.
  if (target.port === 80) {
    answers.connected();
    return http(target);
  }
  if (!passage.lead()) return answers.failed("limit");
  const outside = await passage.border.dial(passage, target);
  if (passage.ended) return;
  if (outside === null) {
    passage.rest();
    return answers.failed("unreachable");
  }
  answers.connected();
  // Where 443 means TLS the client speaks first; elsewhere the server may.
  if (target.port !== 443) pumpIn(passage, outside);
  const opening = await readFirst(passage, target);
  if (passage.ended) return;
  if (opening === null || opening.kind === "refused") {
    if (opening !== null) passage.refuse(opening.reason, opening.detail);
    return passage.end();
  }
  if (opening.kind === "http") {
    passage.drop(outside);
    passage.rest();
    return http(target);
  }
  if (target.port === 443) pumpIn(passage, outside);
  pump(passage.client, outside, passage.takeOut, passage.border);
}

function readFirst(passage: Passage, target: Target): Promise<Opening | null> {
  return peek(passage.client, passage.border.limits.head_bytes, (bytes, full) => {
    const value = readOpening(bytes, target, target.open) ?? (full ? TOO_LONG : undefined);
    return value === undefined ? undefined : { value, used: 0 };
  });
}

function pumpIn(passage: Passage, outside: Socket): void {
  pump(outside, passage.client, passage.takeIn, passage.border);
  passage.follow(outside);
}
