/**
 * Frames that fit no pending request: a second reply, a reply after we gave up, an event after the reply, an id that
 * nobody gave. They change nothing but a counter.
 */
import { isNonEmpty } from "./check-vai.ts";
import { type Ending, SettledIds } from "./settled-ids.ts";

export interface VaiViolation {
  kind: "second_reply" | "unknown_id" | "late_reply" | "unexpected_frame" | "event_after_reply";
  request_id?: string;
}

export class Strangers {
  readonly #settled = new SettledIds();
  readonly #count: (violation: VaiViolation) => void;

  constructor(count: (violation: VaiViolation) => void) {
    this.#count = count;
  }

  /** From now on a frame for this id is a stranger. */
  settled(id: string, ending: Ending): void {
    this.#settled.add(id, ending);
  }

  came(id: unknown, as: "second_reply" | "event_after_reply"): void {
    if (!isNonEmpty(id)) {
      this.#count({ kind: "unexpected_frame" });
      return;
    }
    const ending = this.#settled.get(id);
    if (ending === undefined) this.#count({ kind: "unknown_id" });
    else {
      const late = ending === "abandoned" && as === "second_reply";
      this.#count({ kind: late ? "late_reply" : as, request_id: id });
    }
  }
}
