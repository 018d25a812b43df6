/**
 * Text of plugins and people is shown, never obeyed: escape sequences and control characters would let a
 * plugin repaint the operator's terminal. JSON output needs none of this, it escapes them itself.
 */
import { stripVTControlCharacters } from "node:util";
import { plainWords } from "@backplane/contract";

/** Every control character but line break and tab, and the marks that reverse the direction of text. */
const CONTROLS = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/** What a terminal obeys or does not show, whatever it stands next to. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;

/** Keeps line breaks and tabs. It may be a piece of a text, so that joiners are left as they are. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text.replace(/\r\n/g, "\n")).replace(CONTROLS, "");
}

/** One line, whatever it was, with a mark where something cannot be seen. */
export function plainLine(text: string): string {
  return plainWords(plainText(text.replace(/\s*[\r\n]+\s*/g, " · "))).trim();
}

/** A value to the letter, for who decides about it: what cannot be seen is written as JSON's own escapes. */
export function exactJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNSEEN, (character) =>
    character === "\n" ? character : escaped(character),
  );
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
