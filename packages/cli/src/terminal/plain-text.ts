/**
 * Sanitizes untrusted text for the terminal: escape sequences and control characters would let a plugin rewrite the
 * text that the operator sees. JSON output keeps its value: such characters are written as JSON escapes.
 */
import { stripVTControlCharacters } from "node:util";
import { sanitizeText } from "@backplane/contract";

/** Characters that JSON does not escape and that change what a terminal shows: C1 controls and bidirectional controls. */
const UNESCAPED_CONTROLS = /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Control characters except line break and tab, and the characters that override text direction. */
const CONTROLS = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/** Characters that a terminal interprets or does not display. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;

/** Keeps line breaks and tabs. Joiners stay, since `text` may be one chunk of a stream. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text.replace(/\r\n/g, "\n")).replace(CONTROLS, "");
}

/** Puts text on one line and marks invisible characters. */
export function plainLine(text: string): string {
  return sanitizeText(plainText(text.replace(/\s*[\r\n]+\s*/g, " · "))).trim();
}

/** One line of JSON. JSON itself escapes ESC and the other C0 controls. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(UNESCAPED_CONTROLS, escapeCharacter);
}

/** The exact value, for someone who approves it: invisible characters are written as JSON escapes. */
export function exactJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(INVISIBLE, (character) =>
    character === "\n" ? character : escapeCharacter(character),
  );
}

function escapeCharacter(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
