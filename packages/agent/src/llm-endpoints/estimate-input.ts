/** Estimates the input tokens of a request before a provider has counted them. */
import { CONTENT_LIMITS, isObject, type Json } from "@backplane/contract";

const CHARS_PER_TOKEN = 4;
/** Longer text without a space among its first characters is treated as the data of an image or a file. */
const DATA_CHARS = 4_096;

export function estimateInput(body: Json): number {
  return Math.ceil(countChars(body) / CHARS_PER_TOKEN);
}

function countChars(value: Json): number {
  if (typeof value === "string")
    return isData(value) ? CONTENT_LIMITS.image_tokens * CHARS_PER_TOKEN : value.length;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + countChars(item), 0);
  if (!isObject(value)) return 1;
  let sum = 0;
  for (const [name, item] of Object.entries(value)) sum += name.length + countChars(item);
  return sum;
}

function isData(text: string): boolean {
  return text.length > DATA_CHARS && !text.slice(0, DATA_CHARS).includes(" ");
}
