/**
 * An installation of several parts of which some are invalid: the valid ones are installed, the others are reported with
 * the reason, and the exit code is `partial`. With --strict nothing is installed.
 */
import { BackplaneError, type LeftOut } from "@backplane/contract";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** Throws if there are invalid parts. */
export function rejectLeftOut(left_out: readonly LeftOut[]): void {
  const [first] = left_out;
  if (first === undefined) return;
  const more = left_out.length === 1 ? "" : ` (and ${left_out.length - 1} more)`;
  throw new BackplaneError("package.invalid", `${leftOutLine(first)}${more}`, {
    details: { left_out },
    ...(first.fix === null ? {} : { fix: first.fix }),
  });
}

export function reportLeftOut({ out }: Context, left_out: readonly LeftOut[]): number {
  for (const one of left_out) {
    out.note(plainLine(leftOutLine(one)));
    if (one.fix !== null) out.note(plainLine(`  fix: ${one.fix}`));
  }
  return left_out.length === 0 ? EXIT.ok : EXIT.partial;
}

function leftOutLine({ kind, name, reason }: LeftOut): string {
  return `Skipped ${kind} ${name}: ${reason}`;
}
