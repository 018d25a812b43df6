/**
 * Text of plugins and people is shown, never obeyed: escape sequences and control characters would let a
 * plugin repaint the operator's terminal. JSON output needs none of this, it escapes them itself.
 */
import { stripVTControlCharacters } from "node:util";

/** Every control character but line break and tab, and the marks that reverse the direction of text. */
const CONTROLS = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/** Keeps line breaks and tabs. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text.replace(/\r\n/g, "\n")).replace(CONTROLS, "");
}

/** One line, whatever it was. */
export function plainLine(text: string): string {
  return plainText(text.replace(/\s*[\r\n]+\s*/g, " · ")).trim();
}
