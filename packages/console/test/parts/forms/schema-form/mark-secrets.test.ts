import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { markSecrets } from "../../../../src/parts/forms/schema-form/mark-secrets.ts";

const TEXT = { type: "string" } as const;
const PASSWORD = { type: "string", format: "password" } as const;
const properties = (fields: JsonObject): JsonObject => ({ type: "object", properties: fields });

test("marks settings whose name indicates a secret", () => {
  const schema = properties({ api_key: TEXT, BOT_TOKEN: TEXT, model: TEXT, token_limit: TEXT });
  expect(markSecrets(schema, true)).toEqual(
    properties({ api_key: PASSWORD, BOT_TOKEN: PASSWORD, model: TEXT, token_limit: TEXT }),
  );
  expect(markSecrets(schema, false)).toEqual(schema);
});

test("marks fields that the schema declares as write-only, whatever their name is", () => {
  const schema = properties({ code: { ...TEXT, writeOnly: true } });
  expect(markSecrets(schema, false)).toEqual(properties({ code: { ...PASSWORD, writeOnly: true } }));
});

test("marks secrets in nested schemas, and references to them", () => {
  const schema: JsonObject = {
    ...properties({ servers: { type: "array", items: properties({ password: TEXT }) } }),
    allOf: [properties({ secret: { $ref: "#/$defs/secret" } })],
    $defs: { secret: TEXT },
  };
  expect(markSecrets(schema, true)).toEqual({
    ...properties({ servers: { type: "array", items: properties({ password: PASSWORD }) } }),
    allOf: [properties({ secret: { $ref: "#/$defs/secret", format: "password" } })],
    $defs: { secret: TEXT },
  });
});

test("marks a secret that may also be null, and its string alternative", () => {
  const schema = properties({
    token: { anyOf: [TEXT, { type: "null" }] },
    secret: { type: ["string", "null"] },
  });
  expect(markSecrets(schema, true)).toEqual(
    properties({
      token: { format: "password", anyOf: [PASSWORD, { type: "null" }] },
      secret: { type: ["string", "null"], format: "password" },
    }),
  );
});

test("does not mark settings that are not free text, or names in default values", () => {
  const schema = properties({
    token: { type: "integer" },
    password: { type: "object" },
    secret: { type: "string", enum: ["a", "b"] },
  });
  expect(markSecrets(schema, true)).toEqual(schema);
  expect(markSecrets({ default: { properties: { token: {} } } }, true)).toEqual({
    default: { properties: { token: {} } },
  });
});
