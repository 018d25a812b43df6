/** Turns a text of the gateway, which may be only a clause, into a sentence. */
export function asSentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  const ended = /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return startsWithName(ended) ? ended : ended[0]!.toUpperCase() + ended.slice(1);
}

/** Names of plugins, keys and files keep their spelling: they contain other characters, or a colon follows. */
function startsWithName(text: string): boolean {
  const [first = ""] = text.split(/\s/, 1);
  return !/^[a-z]+[,.;!?…]?$/i.test(first);
}
