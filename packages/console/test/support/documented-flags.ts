/** Reads docs/cli.md, which is generated from the commands, so that tests find flags that do not exist. */
import { readFileSync } from "node:fs";

const REFERENCE = new URL("../../../../docs/cli.md", import.meta.url);

/** The flags of a command line that the command does not have. */
export function undocumentedFlags(words: readonly string[]): string[] {
  const end = words.indexOf("--");
  const flags = words.slice(0, end === -1 ? undefined : end).filter((word) => word.startsWith("--"));
  const [command] = readFileSync(REFERENCE, "utf8")
    .split(/^#{2,3} /m)
    .filter((section) => section.startsWith(`${words.slice(0, 3).join(" ")}\n`));
  return flags.filter((flag) => !(command ?? "").includes(`| \`${flag}`));
}
