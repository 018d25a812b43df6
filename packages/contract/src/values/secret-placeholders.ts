/**
 * `${slot}` in the configuration of a server is replaced by the secret in that slot of its binding. Slots are lower
 * case, but placeholders may be written like variables, `${SLOT}`. `$${NAME}` is replaced by the text `${NAME}`.
 */
import { isObject } from "./json.ts";

const PLACEHOLDER = /(\$?)\$\{([a-z][a-z0-9_]*)\}/gi;

/** The slots that a text, or the texts of a list or object, refer to. */
export function placeholderSlots(value: unknown): string[] {
  if (typeof value === "string")
    return [...value.matchAll(PLACEHOLDER)].flatMap(([, dollar, name]) =>
      dollar === "" ? [name!.toLowerCase()] : [],
    );
  if (Array.isArray(value)) return value.flatMap(placeholderSlots);
  return isObject(value) ? Object.values(value).flatMap(placeholderSlots) : [];
}

/** `secretOf` throws for a slot without a secret. */
export function fillPlaceholders(text: string, secretOf: (slot: string) => string): string {
  return text.replace(PLACEHOLDER, (placeholder, dollar: string, name: string) =>
    dollar === "" ? secretOf(name.toLowerCase()) : placeholder.slice(1),
  );
}
