/**
 * Frames to text. JSON.stringify escapes a lone surrogate, which every strict reader refuses; it leaves here
 * as U+FFFD, so that a carelessly cut string costs its author one character and not the connection.
 */
export function encodeContentLength(frame: object): string {
  const body = stringifyFrame(frame);
  return `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export function encodeNdjson(frame: object): string {
  return `${stringifyFrame(frame)}\n`;
}

export function stringifyFrame(frame: object): string {
  const text = JSON.stringify(frame);
  return text.includes("\\ud") ? text.replace(LONE_SURROGATE, "$1\\ufffd") : text;
}

/** An even run of backslashes before it belongs to the string's own text. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;
