/** The terminal's line editor: whole lines in, with editing and history. A line that ends in \ goes on in the next. */
import { createInterface, type Interface } from "node:readline";
import type { Io } from "./io.ts";

export interface LineListener {
  line(line: string): void;
  interrupt(): void;
  /** Ctrl-D, or the terminal is gone. */
  end(): void;
}

const PROMPT = "> ";
const MORE = "… ";

export class LineEditor {
  readonly #editor: Interface;
  #begun: string[] = [];
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
        this.#begun.push(line.slice(0, -1));
        this.#show(MORE);
        return;
      }
      const whole = [...this.#begun, line].join("\n");
      this.#begun = [];
      listener.line(whole);
    });
    this.#editor.on("SIGINT", () => {
      this.#begun = [];
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

  /** The next line is the answer; what was being typed is no part of it. */
  ask(question: string, answer: (line: string) => void): void {
    this.#answer = answer;
    this.#clear();
    this.#show(question);
  }

  /** Takes the open question back. */
  unask(): void {
    this.#answer = null;
    this.#clear();
  }

  close(): void {
    this.#editor.close();
  }

  /** What ends after the person has left finds nobody to prompt. */
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
