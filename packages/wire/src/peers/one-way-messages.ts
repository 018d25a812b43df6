/**
 * Messages of ours that ask for no reply: notifications, and our replies to the other side. Some programs answer them
 * all the same, with an error or an empty result that names no request. Such an answer is excused once per message;
 * any other reply without an id belongs to a request in flight, which nobody can tell, so the stream cannot be trusted.
 */
import type { JsonObject } from "@backplane/contract";
import { isObject } from "./check-vai.ts";

export class OneWayMessages {
  #unanswered = 0;
  /** Requests from this id on were sent after the last of them. */
  #before = 0;

  /** `next_id`: the id that the next request will have. */
  sent(next_id: number): void {
    this.#unanswered++;
    this.#before = next_id;
  }

  /** A request that was sent later has its reply: the messages before it have been dealt with. */
  replied(id: number): void {
    if (id >= this.#before) this.#unanswered = 0;
  }

  excuses(reply: JsonObject): boolean {
    if (this.#unanswered === 0 || (reply.id !== undefined && reply.id !== null)) return false;
    if (reply.error === undefined && !isEmpty(reply.result)) return false;
    this.#unanswered--;
    return true;
  }
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (isObject(value) && Object.keys(value).length === 0);
}
