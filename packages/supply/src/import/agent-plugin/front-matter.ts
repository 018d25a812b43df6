/**
 * The front matter of a SKILL.md: the few fields of Agent Skills that are read here, without all of YAML. A field is a
 * line `key: value`, plain, quoted, or a block that is indented below it; what lies deeper is passed over.
 */
const LINE = /^([A-Za-z][A-Za-z0-9_-]*):(?:\s+(.*))?$/;

/** Null: the file does not begin with front matter. */
export function readFrontMatter(text: string): Map<string, string> | null {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  if (lines[0]?.trimEnd() !== "---") return null;
  const end = lines.findIndex((line, at) => at > 0 && line.trimEnd() === "---");
  if (end < 0) return null;
  const fields = new Map<string, string>();
  for (let at = 1; at < end; at++) {
    const match = LINE.exec(lines[at]!);
    if (match === null) continue;
    const below: string[] = [];
    while (at + 1 < end && (/^\s+\S/.test(lines[at + 1]!) || lines[at + 1]!.trim() === ""))
      below.push(lines[++at]!);
    fields.set(match[1]!, fieldOf((match[2] ?? "").trim(), below));
  }
  return fields;
}

function fieldOf(first: string, below: readonly string[]): string {
  const rest = below.map((line) => line.trim());
  if (/^[|>][+-]?$/.test(first)) return rest.join(first.startsWith("|") ? "\n" : " ").trim();
  const whole = [first, ...rest].join(" ").trim();
  const quoted = /^"((?:[^"\\]|\\.)*)"|^'((?:[^']|'')*)'/.exec(whole);
  if (quoted?.[1] !== undefined) return quoted[1].replace(/\\(["\\/])/g, "$1").replace(/\\n/g, "\n");
  if (quoted?.[2] !== undefined) return quoted[2].replaceAll("''", "'");
  return whole.replace(/\s+#.*$/, "");
}
