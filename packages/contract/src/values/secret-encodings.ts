/**
 * The usual encodings of a leaked secret: raw, JSON-escaped (as UTF-8 or ASCII), quoted, URL-encoded, hex, and base64
 * at each of the three alignments, so that `Basic base64(user:secret)` is found as well.
 */

/** Shorter values are not redacted: they would match by chance in most answers. */
export const MIN_SECRET_LENGTH = 4;
/** A shorter fragment would match by chance in other base64 text. */
const MIN_ENCODED_LENGTH = 8;
/** Line lengths of `base64` and PEM. */
const WRAPS = [76, 64];

export function encodingsOf(secret: string): Set<string> {
  const all = new Set<string>();
  if (secret.length < MIN_SECRET_LENGTH) return all;
  all.add(secret);
  // Most secrets have the same form in JSON and in a URL.
  if (!/^[\w.-]+$/.test(secret)) addEscaped(secret, all);
  const bytes = utf8Of(secret.toWellFormed());
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (hex.length >= MIN_ENCODED_LENGTH) all.add(hex).add(hex.toUpperCase());
  for (let shift = 0; shift < 3; shift++) {
    for (const code of base64At(bytes, shift)) {
      if (code.length >= MIN_ENCODED_LENGTH)
        all.add(code).add(code.replaceAll("+", "-").replaceAll("/", "_"));
    }
  }
  return all;
}

function addEscaped(secret: string, all: Set<string>): void {
  const json = JSON.stringify(secret).slice(1, -1);
  all.add(json).add(json.replaceAll("/", "\\/"));
  // Languages print a string (repr, inspect) in quotes that the string does not contain.
  const unescaped = json.replaceAll('\\"', '"');
  all.add(unescaped).add(unescaped.replaceAll("'", "\\'"));
  for (const hex of [(text: string) => text, (text: string) => text.toUpperCase()]) {
    all.add(
      json.replace(/[\u007f-\uffff]/g, (c) => `\\u${hex(c.charCodeAt(0).toString(16).padStart(4, "0"))}`),
    );
  }
  for (const url of urlEncodings(secret.toWellFormed())) {
    all.add(url).add(url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()));
  }
}

/**
 * The forms of common URL encoders: encodeURIComponent, with !'()* encoded too, without / or any delimiter encoded, and
 * with + for a space.
 */
function urlEncodings(secret: string): string[] {
  const component = encodeURIComponent(secret);
  const strict = component.replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const kinds = [component, strict, strict.replaceAll("%2F", "/"), encodeURI(secret)];
  const form = strict.replaceAll("%2A", "*").replaceAll("~", "%7E");
  return [...kinds, ...[component, strict, form].map((kind) => kind.replaceAll("%20", "+"))];
}

/**
 * The encodings of `bytes` after `shift` unknown bytes: at the end of a text, with and without padding, and in the
 * middle of one, without the last character, which also depends on the next byte.
 */
function base64At(bytes: readonly number[], shift: number): string[] {
  const encoded = base64([...Array.from({ length: shift }, () => 0), ...bytes]);
  const first = Math.ceil((shift * 8) / 6);
  const last = Math.floor(((shift + bytes.length) * 8) / 6);
  const tail = encoded.slice(first);
  const codes = [tail, tail.replace(/=+$/, ""), encoded.slice(first, last)];
  if (shift === 0) {
    for (const width of WRAPS) {
      if (tail.length > width) codes.push(tail.replace(new RegExp(`.{${width}}(?=.)`, "g"), "$&\n"));
    }
  }
  return codes;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Written by hand, because this module is platform independent and cannot use Buffer. */
function base64(bytes: readonly number[]): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const [a, b, c] = [bytes[i]!, bytes[i + 1], bytes[i + 2]];
    const bits = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    text += DIGITS[bits >> 18]! + DIGITS[(bits >> 12) & 63]!;
    text += b === undefined ? "=" : DIGITS[(bits >> 6) & 63]!;
    text += c === undefined ? "=" : DIGITS[bits & 63]!;
  }
  return text;
}

function utf8Of(text: string): number[] {
  const bytes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else {
      bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63));
      bytes.push(0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
  }
  return bytes;
}
