/** Questions to a person. Where nobody can answer (no TTY, --no-input) nothing waits: it is a usage error. */
import { BackplaneError } from "@backplane/contract";
import type { Io } from "./io.ts";
import { plainLine } from "./plain-text.ts";

const INTERRUPT = "\u0003";
const END_OF_INPUT = "\u0004";

export interface PromptFlags {
  yes?: boolean;
  input?: boolean;
}

/** Throws unless the person, or --yes, agrees. */
export async function confirm(io: Io, flags: PromptFlags, question: string): Promise<void> {
  if (flags.yes === true) return;
  assertConfirmable(io, flags);
  io.stderr.write(`${plainLine(question)} [y/N] `);
  const answer = await readLine(io, true);
  if (!/^y(es)?$/i.test(answer.trim())) {
    throw new BackplaneError("cli.usage", "Not confirmed, so nothing was changed.", {
      fix: "Answer y, or run the same command with --yes.",
    });
  }
}

/** Before any request is made for a question that cannot be asked. */
export function assertConfirmable(io: Io, flags: PromptFlags): void {
  if (flags.yes === true || canAsk(io, flags)) return;
  const why = flags.input === false ? "--no-input forbids to ask" : "stdin is not a terminal";
  throw new BackplaneError("cli.usage", `This needs a confirmation, and nobody can be asked: ${why}.`, {
    fix: "Run the same command with --yes.",
  });
}

export function canAsk(io: Io, flags: PromptFlags): boolean {
  return io.stdin.isTTY === true && flags.input !== false;
}

/** A line typed at a terminal without showing it. */
export async function readHidden(io: Io, prompt: string): Promise<string> {
  io.stderr.write(prompt);
  return readLine(io, false);
}

/** A line typed or pasted at a terminal. */
export async function readVisible(io: Io, prompt: string): Promise<string> {
  io.stderr.write(plainLine(prompt));
  return readLine(io, true);
}

/** Raw mode, so that the terminal itself echoes nothing; what may be seen is echoed here. */
function readLine(io: Io, echo: boolean): Promise<string> {
  const { stdin, stderr } = io;
  let line = "";
  return new Promise((resolve, reject) => {
    const finish = (end: () => void) => {
      stdin.off("data", onData);
      stdin.off("end", onEnd);
      stdin.setRawMode?.(false);
      stdin.pause();
      stderr.write("\n");
      end();
    };
    const onEnd = () => finish(() => resolve(line));
    const onData = (chunk: Buffer | string) => {
      for (const character of chunk.toString()) {
        if (character === "\r" || character === "\n" || character === END_OF_INPUT) return onEnd();
        if (character === INTERRUPT) return finish(() => reject(interrupted()));
        if (character === "\u007f" || character === "\b") {
          if (line !== "" && echo) stderr.write("\b \b");
          line = line.replace(/.$/u, "");
        } else if (character >= " ") {
          line += character;
          if (echo) stderr.write(character);
        }
      }
    };
    stdin.setRawMode?.(true);
    stdin.on("data", onData);
    stdin.on("end", onEnd);
    stdin.resume();
  });
}

function interrupted(): BackplaneError {
  return new BackplaneError("cancelled", "Interrupted at the prompt.", { details: { signal: "SIGINT" } });
}
