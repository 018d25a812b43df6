/** What is said of a source that is no package: what was looked for, and what is there instead. */
import { BackplaneError } from "@backplane/contract";

export function noSource(message: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${message}.`);
}

export function instead(names: readonly string[]): string {
  if (names.length === 0) return "it is empty";
  const shown = [...names].sort().slice(0, 8);
  return `found instead: ${shown.join(", ")}${names.length > shown.length ? ", …" : ""}`;
}
