/**
 * Prints the streamed text of a turn, each character once. Deltas come from the bus and the complete text of a model
 * call from the tape, which may arrive before the deltas, after them or, after a lost connection, instead of them. So
 * each text is compared with the text already printed, and only its new part is printed.
 */
import type { ChatEvent } from "./chat-events.ts";

/** How many incomplete texts are remembered after a turn. */
const MAX_INCOMPLETE = 8;

export class AnswerText {
  readonly #write: (text: string) => void;
  /** The text of the current model call that has been printed. */
  #written = "";
  /** The text of the current model call that has arrived as deltas. */
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
  handle(chat_event: ChatEvent): boolean {
    if (chat_event.kind === "delta")
      this.addChunk(chat_event.text, chat_event.iteration, chat_event.replaces_all);
    else if (chat_event.kind === "model_text") this.addModelText(chat_event.text);
    else if (chat_event.kind === "answer") this.addAnswer(chat_event.text);
    else {
      if (chat_event.kind === "tool_call") this.startNextCall();
      return false;
    }
    return true;
  }

  addChunk(text: string, iteration: number, replaces_all: boolean): void {
    if (iteration !== this.#iteration) {
      if (this.#iteration !== 0) this.#endModelCall();
      this.#iteration = iteration;
    }
    this.#streamed = replaces_all ? text : this.#streamed + text;
    this.#writeNewPart(this.#streamed);
  }

  /** The complete text of a model call. */
  addModelText(text: string): void {
    const incomplete_index = this.#incomplete.indexOf(text);
    if (incomplete_index !== -1) {
      this.#incomplete.splice(incomplete_index, 1);
      return;
    }
    if (this.#complete) this.#endModelCall();
    this.#writeNewPart(text);
    this.#complete = true;
  }

  /** The next text belongs to the next model call. */
  startNextCall(): void {
    this.#endModelCall();
    this.#iteration = 0;
  }

  /** The answer of the turn, usually the text of the last model call. */
  addAnswer(text: string): void {
    this.#writeNewPart(text);
    this.reset();
  }

  /** Ensures that the next output starts on a new line. */
  endLine(): void {
    if (this.#line_open) this.#write("\n");
    this.#line_open = false;
  }

  reset(): void {
    this.startNextCall();
    // The tape may report a model call shortly after the answer of the turn.
    this.#incomplete = this.#incomplete.slice(-MAX_INCOMPLETE);
  }

  #writeNewPart(text: string): void {
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

  #endModelCall(): void {
    if (this.#written !== "" && !this.#complete) this.#incomplete.push(this.#written);
    this.endLine();
    this.#written = "";
    this.#streamed = "";
    this.#complete = false;
  }
}
