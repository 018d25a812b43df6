/** Reads the signature of a package on this machine. The gateway verifies it. */
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { BackplaneError, isObject, type JsonObject, SIGNATURE_FILE } from "@backplane/contract";

const MAX_BYTES = 64 * 1024;

/** Reads the specified file, otherwise the one in the package folder. Undefined if that folder has none. */
export function readSignatureFile(
  cwd: string,
  path: string,
  specified: string | undefined,
): JsonObject | undefined {
  const default_file = join(path, SIGNATURE_FILE);
  const file = specified === undefined ? default_file : resolve(cwd, specified);
  const info = statSync(file, { throwIfNoEntry: false });
  if (info === undefined) {
    if (specified === undefined) return undefined;
    throw invalidSignatureError(specified, "does not exist");
  }
  if (!info.isFile() || info.size > MAX_BYTES)
    throw invalidSignatureError(file, "is not a file of at most 64 KiB");
  try {
    const json: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (isObject(json)) return json;
  } catch {
    // Reported below.
  }
  throw invalidSignatureError(file, "is not a JSON object");
}

function invalidSignatureError(file: string, problem: string): BackplaneError {
  return new BackplaneError("cli.usage", `${file} ${problem}.`, {
    fix: "Specify a file that `backplane plugin sign` wrote.",
  });
}
