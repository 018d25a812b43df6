/** JSON as colored parts. Long texts get no colors, because each part is an element. */

export type JsonPart = { kind: "plain" | "key" | "string" | "number" | "literal"; text: string };

const MAX_COLORED = 20_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

export function jsonParts(text: string): JsonPart[] {
  if (text.length > MAX_COLORED) return [{ kind: "plain", text }];
  const parts: JsonPart[] = [];
  let end = 0;
  const push = (kind: JsonPart["kind"], part: string) => {
    if (part !== "") parts.push({ kind, text: part });
  };
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon, number, literal] = match;
    push("plain", text.slice(end, match.index));
    end = match.index + whole.length;
    if (string !== undefined) {
      push(colon === undefined ? "string" : "key", string);
      push("plain", colon ?? "");
    } else push(number === undefined ? "literal" : "number", (number ?? literal)!);
  }
  push("plain", text.slice(end));
  return parts;
}
