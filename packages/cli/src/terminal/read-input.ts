/** Reads values from an argument, a file, stdin or a hidden prompt. A value that cannot be read is a usage error. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import type { Io } from "./io.ts";
import { canAsk, type PromptFlags, readHidden } from "./prompts.ts";

const SLOW_STDIN_MS = 1_000;

/** `text` is JSON, `@file`, or `-` for stdin. */
export async function readJson(io: Io, flag: string, text: string): Promise<Json> {
  const source = text === "-" ? "stdin" : text.startsWith("@") ? text.slice(1) : flag;
  const json = await readText(io, flag, text);
  try {
    return JSON.parse(json) as Json;
  } catch (cause) {
    throw new BackplaneError("cli.usage", `${source} is not JSON: ${(cause as Error).message}.`, {
      fix: `Quote it for the shell, as in ${flag} '{"query":"open"}', or specify a file: ${flag} @file.json`,
    });
  }
}

export async function readJsonObject(io: Io, flag: string, text: string): Promise<JsonObject> {
  const value = await readJson(io, flag, text);
  if (isObject(value)) return value;
  throw new BackplaneError("cli.usage", `${flag} must be a JSON object.`, {
    fix: `${flag} '{"key":"value"}'`,
  });
}

const READ_ERRORS: Record<string, string> = {
  ENOENT: "the file does not exist",
  EACCES: "permission denied",
  EISDIR: "it is a folder",
};

async function readText(io: Io, flag: string, text: string): Promise<string> {
  if (text === "-") return (await readStdin(io)).toString("utf8");
  if (!text.startsWith("@")) return text;
  try {
    return await readFile(resolve(io.cwd, text.slice(1)), "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown";
    const reason = READ_ERRORS[code] ?? `the file system reports ${code}`;
    throw new BackplaneError("cli.usage", `Cannot read ${text.slice(1)} (${flag}): ${reason}.`, {
      fix: "Check the path; it is relative to the current directory.",
    });
  }
}

/** Reads stdin to its end. An open pipe without data looks like a hang, so a note appears after a second. */
export async function readStdin(io: Io): Promise<Buffer> {
  const slow = setTimeout(() => io.stderr.write("Reading stdin until it ends ...\n"), SLOW_STDIN_MS);
  try {
    const chunks: Buffer[] = [];
    for await (const chunk of io.stdin) chunks.push(Buffer.from(chunk as Uint8Array | string));
    return Buffer.concat(chunks);
  } finally {
    clearTimeout(slow);
  }
}

/** Parses JSON; anything else is text. */
export function parseValue(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    // A version (1.10) or a long id stays text, because a number would lose digits.
    return typeof value === "number" && String(value) !== text.trim() ? text : value;
  } catch {
    return text;
  }
}

/** `fix` is a command that pipes the value in, for use without a prompt. */
export async function readSecretValue(
  { io, flags }: { io: Io; flags: PromptFlags },
  name: string,
  fix: string,
): Promise<string> {
  const can_prompt = canAsk(io, flags);
  if (io.stdin.isTTY === true && !can_prompt)
    throw missingValueError("There is no value: stdin is a terminal, and --no-input forbids prompts.", fix);
  const text = can_prompt
    ? await readHidden(io, `Value of ${name}: `)
    : (await readStdin(io)).toString("utf8");
  const value = text.replace(/\r?\n$/, "");
  if (value === "") throw missingValueError("The value is empty.", fix);
  return value;
}

function missingValueError(reason: string, fix: string): BackplaneError {
  return new BackplaneError("cli.usage", reason, { fix: `Pipe the value in: ${fix}` });
}
