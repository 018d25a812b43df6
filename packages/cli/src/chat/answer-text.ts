/**
 * Prints the streamed text of a turn, each character once. Deltas come from the bus and the complete text of a model call
 * from the tape, which may arrive before the deltas, after them or, after a lost connection, instead of them. So each text
 * is compared with what was already written, and only the rest is printed.
 */
import type { ChatEvent } from "./chat-events.ts";

/** How many incomplete texts are remembered after a turn. */
const MAX_INCOMPLETE = 8;

export class AnswerText {
  readonly #write: (text: string) => void;
  /** Text of the current model call. */
  #written = "";
  #streamed = "";
  #iteration = 0;
  /** Whether the complete text of this call has arrived. */
  #complete = false;
  /** Texts of earlier calls whose complete text has not arrived. */
  #incomplete: string[] = [];
  #line_open = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Returns whether the event was text. A tool call ends the current text, but the caller prints its line. */
  handle(chatEvent: ChatEvent): boolean {
    if (chatEvent.kind === "delta") this.addChunk(chatEvent.text, chatEvent.iteration, chatEvent.whole);
    else if (chatEvent.kind === "model_text") this.model(chatEvent.text);
    else if (chatEvent.kind === "answer") this.answer(chatEvent.text);
    else {
      if (chatEvent.kind === "tool_call") this.step();
      return false;
    }
    return true;
  }

  addChunk(text: string, iteration: number, whole: boolean): void {
    if (iteration !== this.#iteration) {
      if (this.#iteration !== 0) this.#close();
      this.#iteration = iteration;
    }
    this.#streamed = whole ? text : this.#streamed + text;
    this.#writeRest(this.#streamed);
  }

  /** The complete text of a model call. */
  model(text: string): void {
    const late = this.#incomplete.indexOf(text);
    if (late !== -1) {
      this.#incomplete.splice(late, 1);
      return;
    }
    if (this.#complete) this.#close();
    this.#writeRest(text);
    this.#complete = true;
  }

  /** The next text belongs to the next model call. */
  step(): void {
    this.#close();
    this.#iteration = 0;
  }

  /** The answer of the turn, usually the text of the last model call. */
  answer(text: string): void {
    this.#writeRest(text);
    this.reset();
  }

  /** Ensures that the next output starts on a new line. */
  endLine(): void {
    if (this.#line_open) this.#write("\n");
    this.#line_open = false;
  }

  reset(): void {
    this.step();
    // The tape may report a model call shortly after the answer of the turn.
    this.#incomplete = this.#incomplete.slice(-MAX_INCOMPLETE);
  }

  #writeRest(text: string): void {
    if (this.#written.startsWith(text)) return;
    if (!text.startsWith(this.#written)) {
      this.endLine();
      this.#written = "";
    }
    this.#print(text.slice(this.#written.length));
    this.#written = text;
  }

  #print(text: string): void {
    this.#write(text);
    this.#line_open = !text.endsWith("\n");
  }

  #close(): void {
    if (this.#written !== "" && !this.#complete) this.#incomplete.push(this.#written);
    this.endLine();
    this.#written = "";
    this.#streamed = "";
    this.#complete = false;
  }
}
