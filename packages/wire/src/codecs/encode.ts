export function encodeContentLength(frame: object): string {
  const body = stringifyFrame(frame);
  return `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export function encodeNdjson(frame: object): string {
  return `${stringifyFrame(frame)}\n`;
}

/**
 * JSON.stringify escapes a lone surrogate, and strict readers reject that escape. It is replaced by U+FFFD: a string
 * that was cut inside a character loses that character, and the connection survives.
 */
export function stringifyFrame(frame: object): string {
  const text = JSON.stringify(frame);
  return text.includes("\\ud") ? text.replace(LONE_SURROGATE, "$1\\ufffd") : text;
}

/** Pairs of backslashes before the escape are escaped backslashes of the string, not part of the escape. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;
