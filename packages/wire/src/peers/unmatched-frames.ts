/**
 * Classifies frames that match no pending request: a second reply, a reply after the request was abandoned, an event
 * after the reply or after the request was abandoned (`event_after_reply` in both cases), an unknown id. Such frames
 * are counted and otherwise ignored.
 */
import { isNonEmpty } from "./check-vai.ts";
import { type RequestEnding, SettledIds } from "./settled-ids.ts";

export interface VaiViolation {
  kind: "second_reply" | "unknown_id" | "late_reply" | "unexpected_frame" | "event_after_reply";
  request_id?: string;
}

export class UnmatchedFrames {
  readonly #settled = new SettledIds();
  readonly #onViolation: (violation: VaiViolation) => void;

  constructor(onViolation: (violation: VaiViolation) => void) {
    this.#onViolation = onViolation;
  }

  /** Records that the request ended; later frames with its id are unmatched. */
  recordEnd(id: string, ending: RequestEnding): void {
    this.#settled.add(id, ending);
  }

  report(id: unknown, kind: "second_reply" | "event_after_reply"): void {
    if (!isNonEmpty(id)) {
      this.#onViolation({ kind: "unexpected_frame" });
      return;
    }
    const ending = this.#settled.get(id);
    if (ending === undefined) this.#onViolation({ kind: "unknown_id" });
    else {
      const is_late = ending === "abandoned" && kind === "second_reply";
      this.#onViolation({ kind: is_late ? "late_reply" : kind, request_id: id });
    }
  }
}
