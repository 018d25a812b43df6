/** Why one part of several cannot be used, in words for people. */
import { codeOf, ownFix, toBackplaneError } from "../errors/error.ts";
import type { LeftOut } from "../schema/index.ts";

const NAME_LENGTH = 64;

/** A fault of the part itself; one of the gateway, its store or the credential ends the whole. */
export function isPartFault(thrown: unknown): boolean {
  return /^(?:package\.|plugin\.install_failed$)/.test(codeOf(thrown) ?? "");
}

export function leftOut(kind: LeftOut["kind"], name: string, thrown: unknown): LeftOut {
  const known = toBackplaneError(thrown);
  const { message, fix, code } = known;
  // The remedy of package.invalid speaks of any package; other codes have one that helps.
  const general = code === "package.invalid" && ownFix(known) === undefined;
  return { kind, name: name.slice(0, NAME_LENGTH), reason: message, fix: general ? null : fix };
}
