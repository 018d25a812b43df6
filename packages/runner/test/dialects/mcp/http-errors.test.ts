import { expect, test } from "vitest";
import { signInError } from "../../../src/dialects/mcp/http-errors.ts";

const readChallenge = (status: number, header?: string) =>
  signInError(status, header, undefined)?.details?.challenge;
const NO_FIELDS = { error: null, scope: null, resource_metadata: null, shown: null };

test.each<[string, string | undefined, object]>([
  ["none", undefined, {}],
  ["a bare scheme", "Bearer", {}],
  [
    "quoted and bare values",
    'Bearer error=invalid_token, scope="a b"',
    { error: "invalid_token", scope: "a b" },
  ],
  [
    "any case and irregular spaces",
    'bearer  SCOPE = "a" ,resource_metadata="https://x/y"',
    { scope: "a", resource_metadata: "https://x/y" },
  ],
  ["an escaped quote", 'Bearer scope="a\\"b"', { scope: 'a"b' }],
  ["a second scheme after it", 'Bearer scope="a", Basic realm="x", scope="evil"', { scope: "a" }],
  ["another scheme before it", 'Basic realm="Bearers", Bearer scope="a"', { scope: "a" }],
  ["only another scheme", 'Basic realm="x", scope="a"', {}],
  ["the first of two", 'Bearer scope="a", scope="b"', { scope: "a" }],
])("reads a challenge: %s", (_, header, expected) => {
  expect(readChallenge(401, header)).toEqual({ status: 401, ...NO_FIELDS, ...expected });
});

test("requires a sign-in after a 403 only if the scope is insufficient", () => {
  expect(readChallenge(403, 'Bearer error="insufficient_scope", scope="w"')).toMatchObject({
    status: 403,
    scope: "w",
  });
  expect(readChallenge(403, 'Bearer error="invalid_token"')).toBeUndefined();
  expect(readChallenge(403)).toBeUndefined();
  expect(readChallenge(500, 'Bearer error="insufficient_scope"')).toBeUndefined();
});

test("identifies the rejected credential without revealing it", () => {
  const error = signInError(401, undefined, "Bearer hunter2-hunter2")!;
  expect(JSON.stringify(error.details)).not.toContain("hunter2");
  expect(error.details?.challenge).toMatchObject({ shown: expect.stringMatching(/^[0-9a-f]{64}$/) });
});
