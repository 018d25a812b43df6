/** A changed definition for people: each text that differs, as it was and as it is now. */
import type { Json, QuarantinedTool } from "@backplane/contract";
import { plainLine, plainText } from "./plain-text.ts";

export function differenceText({ export: item, since, former, changes }: QuarantinedTool): string[] {
  const head = plainLine(`${item.id}, changed ${since}`);
  return [
    former == null ? `${head}; how it was is not known any more` : head,
    ...changes.flatMap(({ path, before, after, hidden }) => [
      `  ${plainLine(path.slice(1))}`,
      ...(before === undefined ? [] : marked("-", before)),
      ...(after === undefined ? [] : marked("+", after)),
      ...hidden.map((line) => `    ! ${plainLine(line)}`),
    ]),
  ];
}

function marked(mark: string, value: Json): string[] {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return plainText(text)
    .split("\n")
    .map((line) => `    ${mark} ${line}`);
}
