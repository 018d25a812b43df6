/** Builds the error for a refused archive. The error names the rule and, if one entry is at fault, the entry. */
import { BackplaneError } from "@backplane/contract";

export function unsafe(rule: string, message: string, entry?: string, cause?: unknown): BackplaneError {
  const name = entry === undefined ? undefined : printable(entry);
  const text = name === undefined ? message : `entry ${name}: ${message}`;
  return new BackplaneError("package.unsafe", `The archive was refused: ${text} (rule ${rule}).`, {
    details: name === undefined ? { rule } : { rule, entry: name },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Names are untrusted and end up in terminals and logs. */
function printable(name: string): string {
  const quoted = JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
  return quoted.replace(/[\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, escapeChar);
}

function escapeChar(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
