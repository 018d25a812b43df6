/** Explains why a part of a plugin cannot be used. */
import { codeOf, specificFix, toBackplaneError } from "../errors/error.ts";
import type { LeftOut } from "../schema/index.ts";

const MAX_NAME_LENGTH = 64;

/** Whether the error concerns only this part; an error of the gateway, store or credential fails the whole request. */
export function isPartError(thrown: unknown): boolean {
  return /^(?:package\.|plugin\.install_failed$)/.test(codeOf(thrown) ?? "");
}

export function toLeftOut(kind: LeftOut["kind"], name: string, thrown: unknown): LeftOut {
  const known = toBackplaneError(thrown);
  const { message, fix, code } = known;
  // The remedy of package.invalid is too general; the remedies of other codes are specific.
  const general = code === "package.invalid" && specificFix(known) === undefined;
  return { kind, name: name.slice(0, MAX_NAME_LENGTH), reason: message, fix: general ? null : fix };
}
