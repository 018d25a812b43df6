/**
 * Prompts on the terminal. Without a terminal, or with --no-input, a prompt is a usage error instead of an endless
 * wait.
 */
import { BackplaneError } from "@backplane/contract";
import type { Io } from "./io.ts";
import { plainLine } from "./plain-text.ts";

const INTERRUPT = "\u0003";
const END_OF_INPUT = "\u0004";

export interface PromptFlags {
  yes?: boolean;
  input?: boolean;
}

/** Throws unless the user, or --yes, confirms. */
export async function confirm(io: Io, flags: PromptFlags, question: string): Promise<void> {
  if (flags.yes === true) return;
  assertConfirmable(io, flags);
  io.stderr.write(`${plainLine(question)} [y/N] `);
  const answer = await readLine(io, true);
  if (!/^y(es)?$/i.test(answer.trim())) {
    throw new BackplaneError("cli.usage", "Not confirmed; nothing was changed.", {
      fix: "Answer y, or add --yes.",
    });
  }
}

/** For commands that send requests before they prompt: nothing is requested if the prompt cannot be shown. */
export function assertConfirmable(io: Io, flags: PromptFlags): void {
  if (flags.yes === true || canAsk(io, flags)) return;
  const reason = flags.input === false ? "--no-input forbids prompts" : "stdin is not a terminal";
  throw new BackplaneError(
    "cli.usage",
    `This command needs a confirmation, but it cannot prompt for one: ${reason}.`,
    {
      fix: "Add --yes to the command.",
    },
  );
}

export function canAsk(io: Io, flags: PromptFlags): boolean {
  return io.stdin.isTTY === true && flags.input !== false;
}

/** Reads a line from the terminal without echoing it. */
export async function readHidden(io: Io, prompt: string): Promise<string> {
  io.stderr.write(prompt);
  return readLine(io, false);
}

/** Reads a line that is typed or pasted at the terminal. */
export async function readVisible(io: Io, prompt: string): Promise<string> {
  io.stderr.write(plainLine(prompt));
  return readLine(io, true);
}

/** Uses raw mode, in which the terminal echoes nothing; visible input is echoed here. */
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
        if (character === INTERRUPT) return finish(() => reject(interruptedError()));
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

function interruptedError(): BackplaneError {
  return new BackplaneError("cancelled", "Interrupted at the prompt.", { details: { signal: "SIGINT" } });
}
