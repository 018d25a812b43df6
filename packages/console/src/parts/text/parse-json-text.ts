import type { Json } from "@backplane/contract";

export type ParsedJson = { value: Json; problem: null } | { value: undefined; problem: string };

/** Returns the value of a text that a person wrote, or the reason why the text is not valid JSON. */
export function parseJsonText(text: string): ParsedJson {
  try {
    return { value: JSON.parse(text) as Json, problem: null };
  } catch (error) {
    return { value: undefined, problem: `This is not valid JSON: ${(error as Error).message}` };
  }
}
