/** The front matter of a SKILL.md: YAML between two `---` lines at the start of the file. */
import { isObject } from "@backplane/contract";

const MAX_CHARS = 64 * 1024;

/**
 * Returns the fields, with every scalar as a string; null if the file does not begin with front matter. Throws an
 * Error that names the problem.
 */
export async function readFrontMatter(text: string): Promise<Record<string, unknown> | null> {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  if (lines[0]?.trimEnd() !== "---") return null;
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === "---");
  if (end < 0) return null;
  const yaml = lines.slice(1, end).join("\n");
  if (yaml.length > MAX_CHARS) throw new Error(`its front matter is longer than ${MAX_CHARS} characters`);
  // Loaded on first use, so that it does not delay the start of the gateway (benchmark boot.ready).
  // A bundle of a CommonJS library has only the default export.
  const { parse } = (await import("yaml")).default;
  let value: unknown;
  try {
    // The failsafe schema has strings, lists and maps only, so a name such as 1.0 stays the text that was written.
    value = parse(yaml, { schema: "failsafe", maxAliasCount: 10, logLevel: "error" });
  } catch (error) {
    const reason = (error as Error).message.split("\n")[0];
    throw new Error(`its front matter is not valid YAML: ${reason}`, { cause: error });
  }
  return isObject(value) ? value : {};
}
