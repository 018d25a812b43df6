/**
 * Builds the error for a refused archive, folder, image or package. The error names the rule and, if one entry is at
 * fault, the entry.
 */
import { BackplaneError } from "@backplane/contract";

export type BuildRefusal = (rule: string, message: string, entry?: string, cause?: unknown) => BackplaneError;

/** Without `fix`, the error has the remedy of its code, which is written for archives. */
function createRefusal(subject: string, fix?: string): BuildRefusal {
  return (rule, message, entry, cause) => {
    const name = entry === undefined ? undefined : printable(entry);
    const text = name === undefined ? message : `entry ${name}: ${message}`;
    return new BackplaneError("package.unsafe", `The ${subject} was refused: ${text} (rule ${rule}).`, {
      details: name === undefined ? { rule } : { rule, entry: name },
      ...(fix === undefined ? {} : { fix }),
      ...(cause === undefined ? {} : { cause }),
    });
  };
}

export const unsafe = createRefusal("archive");
export const unsafeFolder = createRefusal(
  "folder",
  "Rename, replace or remove what the message names. Files that the plugin does not need can be listed in .vaiignore.",
);
export const unsafeImage = createRefusal(
  "container image",
  "Use another version of the image, or report it to the author of the image.",
);
/** For files that are already unpacked or only listed. */
export const unsafePackage = createRefusal(
  "package",
  "Use another version of the package, or report it to the author of the package.",
);

/** Names are untrusted and end up in terminals and logs. */
function printable(name: string): string {
  const quoted = JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
  return quoted.replace(/[\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, escapeChar);
}

function escapeChar(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
