/** Parses a server-sent event stream as it arrives, with bounded memory. */
import { StringDecoder } from "node:string_decoder";
import { BackplaneError } from "@backplane/contract";

export interface SseEvents {
  /** The data of an event of type `message`; never empty. */
  data(text: string): void;
  /** The last event id, at which the stream can be resumed. */
  id(value: string): void;
  /** The reconnection delay that the server requests. */
  retry(ms: number): void;
}

export class SseReader {
  readonly #events: SseEvents;
  readonly #limit: number;
  readonly #decoder = new StringDecoder("utf8");
  /** The chunks of the incomplete line, which are joined once when it ends. */
  #partial_line: string[] = [];
  #partial_length = 0;
  #data: string[] = [];
  #size = 0;
  #type = "message";
  #first = true;

  constructor(limit: number, events: SseEvents) {
    this.#limit = limit;
    this.#events = events;
  }

  /** Throws `frame_too_large`. */
  push(chunk: Buffer): void {
    let text = this.#decoder.write(chunk);
    if (this.#first && text !== "") {
      this.#first = false;
      if (text.startsWith("\ufeff")) text = text.slice(1);
    }
    if (/[\r\n]/.test(text) || this.#partial_line.at(-1)?.endsWith("\r") === true) {
      const lines = (this.#partial_line.join("") + text).split(/\r\n|\n|\r(?!$)/);
      text = lines.pop()!;
      this.#partial_line = [];
      this.#partial_length = 0;
      for (const line of lines) this.#readLine(line);
    }
    if (text !== "") this.#partial_line.push(text);
    this.#partial_length += text.length;
    if (this.#partial_length + this.#size > this.#limit) throw tooLarge(this.#limit);
  }

  #readLine(line: string): void {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") {
      this.#size += value.length;
      if (this.#size > this.#limit) throw tooLarge(this.#limit);
      this.#data.push(value);
    } else if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#events.id(value);
    else if (field === "retry" && /^\d{1,9}$/.test(value)) this.#events.retry(Number(value));
  }

  #dispatch(): void {
    const text = this.#data.join("\n");
    const type = this.#type;
    this.#data = [];
    this.#size = 0;
    this.#type = "message";
    if (text !== "" && (type === "message" || type === "")) this.#events.data(text);
  }
}

function tooLarge(limit: number): BackplaneError {
  return new BackplaneError("frame_too_large", `An event exceeds the limit of ${limit} bytes.`, {
    details: { limit },
  });
}
