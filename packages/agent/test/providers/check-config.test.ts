import type { JsonObject } from "@backplane/contract";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, expect, test } from "vitest";
import { checkConfig } from "../../src/providers/check-config.ts";

const schemas = shareSchemas();
afterAll(() => schemas.close());

const config_schema = {
  type: "object",
  properties: {
    api_key: { type: "string", minLength: 8 },
    base_url: { type: "string", format: "uri" },
    model: { type: "string" },
    temperature: { type: "number", maximum: 2 },
  },
  required: ["model"],
  additionalProperties: false,
} satisfies JsonObject;

const findConfigError = (
  config: JsonObject,
  changed = Object.keys(config),
  schema: JsonObject | null = config_schema,
) =>
  checkConfig(schemas, { name: "llm-x", config_schema: schema }, config, changed).then(
    () => null,
    (error: { code: string; message: string; details: { issues: { path: string }[] } }) => error,
  );

test("accepts valid fields, missing required fields and empty strings", async () => {
  expect(await findConfigError({ model: "m", temperature: 1, context_window: 1000 })).toBeNull();
  expect(await findConfigError({})).toBeNull();
  expect(await findConfigError({ base_url: "", temperature: null })).toBeNull();
});

test("reports each invalid field, but never its value", async () => {
  const wrong = await findConfigError({ temperature: 3, base_url: "nowhere", api_key: "sk-1" });
  expect(wrong).toMatchObject({ code: "provider.invalid" });
  expect(wrong?.details.issues.map(({ path }) => path).toSorted()).toEqual([
    "config.api_key",
    "config.base_url",
    "config.temperature",
  ]);
  expect(JSON.stringify(wrong?.details) + wrong?.message).not.toContain("sk-1");
  expect((await findConfigError({ context_window: "big" }))?.message).toContain("config.context_window");
});

test("reports an unknown field and lists the known ones when the schema is closed", async () => {
  const wrong = await findConfigError({ modle: "m" });
  expect(wrong?.message).toContain("config.modle: llm-x has no such field");
  expect(wrong?.message).toContain("api_key, base_url, model, temperature, context_window");
  const { additionalProperties: _, ...open } = config_schema;
  expect(await findConfigError({ modle: "m" }, ["modle"], open)).toBeNull();
  expect(await findConfigError({ anything: 1 }, ["anything"], null)).toBeNull();
});

test("ignores fields that were already invalid before the change", async () => {
  expect(await findConfigError({ temperature: 9, model: "m" }, ["model"])).toBeNull();
  expect((await findConfigError({ temperature: 9, model: "m" }, ["temperature"]))?.message).toContain(
    "temperature",
  );
});
