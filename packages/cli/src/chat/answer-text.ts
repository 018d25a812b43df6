/**
 * The text of a turn as it streams, each character once. Pieces come straight from the bus, the complete text of a
 * model call from the tape and thus earlier, later or, after a lost connection, instead of them. So nothing is
 * appended blindly: what is known of a text is held against what was written of it, and only the rest is written.
 */
import type { Moment } from "./chat-events.ts";

const LATE = 8;

export class AnswerText {
  readonly #write: (text: string) => void;
  /** Of the model call that is being answered. */
  #written = "";
  #pieces = "";
  #iteration = 0;
  /** The complete text of this call has come. */
  #complete = false;
  /** Texts of earlier calls whose completion has not come yet. */
  #open: string[] = [];
  #line_open = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Whether the moment was of the text and is dealt with; a call is too, and has a line of its own. */
  take(moment: Moment): boolean {
    if (moment.kind === "piece") this.piece(moment.text, moment.iteration, moment.whole);
    else if (moment.kind === "model") this.model(moment.text);
    else if (moment.kind === "answered") this.answer(moment.text);
    else {
      if (moment.kind === "called") this.step();
      return false;
    }
    return true;
  }

  piece(text: string, iteration: number, whole: boolean): void {
    if (iteration !== this.#iteration) {
      if (this.#iteration !== 0) this.#close();
      this.#iteration = iteration;
    }
    this.#pieces = whole ? text : this.#pieces + text;
    this.#converge(this.#pieces);
  }

  /** A model call is complete. */
  model(text: string): void {
    const late = this.#open.indexOf(text);
    if (late !== -1) {
      this.#open.splice(late, 1);
      return;
    }
    if (this.#complete) this.#close();
    this.#converge(text);
    this.#complete = true;
  }

  /** What comes next is of the next model call. */
  step(): void {
    this.#close();
    this.#iteration = 0;
  }

  /** The turn's own answer, mostly the last model call's text. */
  answer(text: string): void {
    this.#converge(text);
    this.reset();
  }

  /** Whatever is written next begins a line. */
  endLine(): void {
    if (this.#line_open) this.#write("\n");
    this.#line_open = false;
  }

  reset(): void {
    this.step();
    // The tape may tell of a model call after it told of the turn's answer, yet not much later.
    this.#open = this.#open.slice(-LATE);
  }

  #converge(known: string): void {
    if (this.#written.startsWith(known)) return;
    if (!known.startsWith(this.#written)) {
      this.endLine();
      this.#written = "";
    }
    this.#print(known.slice(this.#written.length));
    this.#written = known;
  }

  #print(text: string): void {
    this.#write(text);
    this.#line_open = !text.endsWith("\n");
  }

  #close(): void {
    if (this.#written !== "" && !this.#complete) this.#open.push(this.#written);
    this.endLine();
    this.#written = "";
    this.#pieces = "";
    this.#complete = false;
  }
}
