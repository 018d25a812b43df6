/**
 * Counts sent messages that expect no reply: notifications, and replies to the peer's requests. Some programs answer
 * them with an error or an empty result without an id. One such answer is tolerated per message. Any other reply
 * without an id belongs to an unknown request in flight, so the stream can no longer be trusted.
 */
import { isObject, type JsonObject } from "@backplane/contract";

export class OneWayMessages {
  #unanswered = 0;
  /** Requests with this id or a higher one were sent after the last one-way message. */
  #first_later_id = 0;

  /** `next_id` is the id of the next request. */
  recordSent(next_id: number): void {
    this.#unanswered++;
    this.#first_later_id = next_id;
  }

  /** A reply to a later request shows that the peer has processed the messages before it. */
  recordReply(id: number): void {
    if (id >= this.#first_later_id) this.#unanswered = 0;
  }

  /** Returns whether the reply can be an answer to a one-way message; if so, counts it. */
  tolerates(reply: JsonObject): boolean {
    if (this.#unanswered === 0 || (reply.id !== undefined && reply.id !== null)) return false;
    if (reply.error === undefined && !isEmpty(reply.result)) return false;
    this.#unanswered--;
    return true;
  }
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (isObject(value) && Object.keys(value).length === 0);
}
