/** Generations as ETags: with If-Match, a write fails when the row has changed since the client read it. */
import { BackplaneError } from "@backplane/contract";

export function etagOf({ generation }: { generation: number }): string {
  return `"${generation}"`;
}

/** Whether If-None-Match contains the current generation or `*`. */
export function isUnchanged(header: string | undefined, generation: number): boolean {
  return header !== undefined && tagsIn(header).some((tag) => tag === "*" || tag === generation);
}

/** Returns undefined when there is no condition. Reads the row if the header is neither `*` nor one generation. */
export async function readExpectedGeneration(
  header: string | undefined,
  current: () => Promise<{ generation: number }>,
): Promise<number | undefined> {
  if (header === undefined) return undefined;
  const tags = tagsIn(header);
  if (tags.includes("*")) return undefined;
  if (tags.length === 1 && typeof tags[0] === "number") return tags[0];
  const now = (await current()).generation;
  if (!tags.includes(now)) throw new BackplaneError("request.precondition");
  return now;
}

/** A tag that is not a generation becomes null, which matches nothing. */
function tagsIn(header: string): (number | "*" | null)[] {
  return header.split(",").map((part) => {
    const tag = part.trim();
    if (tag === "*") return "*";
    const generation = /^(?:W\/)?"(\d{1,15})"$/.exec(tag)?.[1];
    return generation === undefined ? null : Number(generation);
  });
}
