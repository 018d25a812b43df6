/** Values of the configuration as people write them, and those that only stdin or a hidden prompt may bring in. */
import { BackplaneError, type Json } from "@backplane/contract";
import { canAsk, readHidden } from "./ask.ts";
import type { Context } from "./context.ts";
import { readStdin } from "./read-input.ts";

/** JSON when it is JSON, text otherwise. */
export function parseValue(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    // A version (1.10) or a long id is text, not the number that it would be turned into.
    return typeof value === "number" && String(value) !== text.trim() ? text : value;
  } catch {
    return text;
  }
}

/** `fix` is how to give it where nobody can be asked. */
export async function readSecretValue({ io, flags }: Context, name: string, fix: string): Promise<string> {
  const typed = canAsk(io, flags);
  if (io.stdin.isTTY === true && !typed)
    throw noValue("stdin is a terminal and --no-input forbids to ask.", fix);
  const text = typed ? await readHidden(io, `Value of ${name}: `) : (await readStdin(io)).toString("utf8");
  const value = text.replace(/\r?\n$/, "");
  if (value === "") throw noValue("No value came in on stdin.", fix);
  return value;
}

function noValue(why: string, fix: string): BackplaneError {
  return new BackplaneError("cli.usage", why, { fix: `Name the value or pipe it in: ${fix}` });
}
