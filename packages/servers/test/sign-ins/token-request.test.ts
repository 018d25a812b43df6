/** Error messages quote the token endpoint's response without the secrets that were sent to it. */
import { expect, test } from "vitest";
import type { OAuthFetch } from "../../src/sign-ins/oauth-fetch.ts";
import { requestTokens } from "../../src/sign-ins/token-request.ts";

const deps = {
  clock: { now: () => 0, monotonic: () => 0, after: () => () => undefined },
  random: { bytes: (n: number) => new Uint8Array(n) },
};
const source = {
  issuer: "https://as.test",
  resource: "https://mcp.test",
  token_endpoint: "https://as.test/token",
  revocation_endpoint: null,
  auth_methods: null,
  client: { id: "c", kind: "given", redirect_uri: null },
  grant: "authorization_code",
  scope: null,
} as const;

function createRefusingFetch(error_description: string): OAuthFetch {
  const respond = () => Promise.resolve({ status: 400, json: { error: "invalid_grant", error_description } });
  return { get: respond, postForm: respond, postJson: respond };
}

test("redacts a token that the authorization server repeats, even where the message is truncated", async () => {
  const refresh_token = `refresh-${"x1y2z3".repeat(10)}`;
  const description = `No token ${refresh_token}${" so it is no use to ask".repeat(4)} for ${refresh_token}`;
  expect(description.indexOf(refresh_token, 20)).toBeLessThan(200 - 20);
  const grant_params = { grant_type: "refresh_token", refresh_token };
  const tokens = requestTokens(
    deps as never,
    createRefusingFetch(description),
    source as never,
    grant_params,
  );
  const message = await tokens.then(String, (error: Error) => error.message);
  expect(message).toContain("invalid_grant): No token ");
  expect(message).not.toContain(refresh_token.slice(0, 20));
  expect(message.length).toBeLessThan(400);
});

test("replaces hidden characters in the authorization server's error with U+FFFD", async () => {
  const tokens = requestTokens(
    deps as never,
    createRefusingFetch("no\u202e\u{e0069}\u{e0067}\nway"),
    source as never,
    {},
  );
  await expect(tokens).rejects.toThrow("invalid_grant): no\ufffd way");
});
