import {
  createRedactor,
  eventText,
  REDACTED,
  TOKEN_PREFIX_SOURCE,
  TOKEN_PREFIXES,
} from "@backplane/contract";
import { describe, expect, test } from "vitest";

const BODY = "aB3-_".repeat(9).slice(0, 43);

describe.each(Object.entries(TOKEN_PREFIXES))("a token of the kind %s", (_kind, prefix) => {
  const token = prefix + BODY;

  test("is removed from the text of an event", () => {
    expect(eventText(`use ${token} now`)).toBe(`use ${REDACTED} now`);
  });

  test("is redacted by its format along with the secrets of a call", () => {
    const redactor = createRedactor(["a-secret-of-the-call"])!;
    expect(redactor.text(`${token}, a-secret-of-the-call`)).toBe(`${REDACTED}, ${REDACTED}`);
    expect(redactor.json({ nested: [token] })).toEqual({ nested: [REDACTED] });
  });

  test("is found by patterns that are built from the list", () => {
    expect(token).toMatch(new RegExp(`^${TOKEN_PREFIX_SOURCE}`));
  });

  test("is kept if it is only a prefix in a sentence", () => {
    expect(eventText(`it starts with ${prefix}…`)).toBe(`it starts with ${prefix}…`);
  });
});
