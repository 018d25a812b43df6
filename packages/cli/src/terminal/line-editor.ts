/** Reads lines from the terminal with editing and history. A line that ends in \ continues on the next line. */
import { createInterface, type Interface } from "node:readline";
import type { Io } from "./io.ts";

export interface LineListener {
  line(line: string): void;
  interrupt(): void;
  /** Ctrl-D, or the terminal was closed. */
  end(): void;
}

const PROMPT = "> ";
const CONTINUATION_PROMPT = "… ";

export class LineEditor {
  readonly #editor: Interface;
  #previous_lines: string[] = [];
  #closed = false;
  #answer: ((line: string) => void) | null = null;

  constructor(io: Io, listener: LineListener) {
    this.#editor = createInterface({
      input: io.stdin,
      output: io.stderr,
      terminal: true,
      prompt: PROMPT,
      historySize: 200,
    });
    this.#editor.on("line", (line) => {
      const answer = this.#answer;
      if (answer !== null) {
        this.#answer = null;
        answer(line);
        return;
      }
      if (line.endsWith("\\")) {
        this.#previous_lines.push(line.slice(0, -1));
        this.#show(CONTINUATION_PROMPT);
        return;
      }
      const input = [...this.#previous_lines, line].join("\n");
      this.#previous_lines = [];
      listener.line(input);
    });
    this.#editor.on("SIGINT", () => {
      this.#previous_lines = [];
      this.#clear();
      listener.interrupt();
    });
    this.#editor.on("close", () => {
      this.#closed = true;
      listener.end();
    });
  }

  prompt(): void {
    if (this.#answer === null) this.#show(PROMPT);
  }

  /** The next line is the answer; text that was typed before is discarded. */
  askQuestion(question: string, answer: (line: string) => void): void {
    this.#answer = answer;
    this.#clear();
    this.#show(question);
  }

  /** Withdraws the open question. */
  cancelQuestion(): void {
    this.#answer = null;
    this.#clear();
  }

  close(): void {
    this.#editor.close();
  }

  /** Does nothing after the editor was closed, because a turn may end later. */
  #show(prompt: string): void {
    if (this.#closed) return;
    this.#editor.setPrompt(prompt);
    this.#editor.prompt();
  }

  #clear(): void {
    if (this.#closed || this.#editor.line === "") return;
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#editor.write(null, { ctrl: true, name: "u" });
  }
}
