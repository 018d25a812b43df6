/**
 * Several things are installed at once and some of them cannot be: the good ones are there, the others are named with the
 * reason, and the exit code says that it was done in part. With --strict it is all or nothing.
 */
import { BackplaneError, type LeftOut } from "@backplane/contract";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** Before anything is installed, and again when something turned out not to be. */
export function refuseLeftOut(left_out: readonly LeftOut[]): void {
  const [first] = left_out;
  if (first === undefined) return;
  const more = left_out.length === 1 ? "" : ` (and ${left_out.length - 1} more)`;
  throw new BackplaneError("package.invalid", `${leftOutLine(first)}${more}`, {
    details: { left_out },
    ...(first.fix === null ? {} : { fix: first.fix }),
  });
}

export function sayLeftOut({ out }: Context, left_out: readonly LeftOut[]): number {
  for (const one of left_out) {
    out.note(plainLine(leftOutLine(one)));
    if (one.fix !== null) out.note(plainLine(`  fix: ${one.fix}`));
  }
  return left_out.length === 0 ? EXIT.ok : EXIT.partial;
}

function leftOutLine({ kind, name, reason }: LeftOut): string {
  return `The ${kind} ${name} is left out: ${reason}`;
}
