import type { JsonObject } from "@backplane/contract";
import { createSchemas } from "@backplane/supply";
import { afterAll, expect, test } from "vitest";
import { checkConfig } from "../../src/providers/check-config.ts";

const schemas = createSchemas();
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

const check = (
  config: JsonObject,
  changed = Object.keys(config),
  schema: JsonObject | null = config_schema,
) =>
  checkConfig(schemas, { name: "llm-x", config_schema: schema }, config, changed).then(
    () => null,
    (error: { code: string; message: string; details: { issues: { path: string }[] } }) => error,
  );

test("what the schema allows passes; what it requires may come later, and an empty text is the default", async () => {
  expect(await check({ model: "m", temperature: 1, context_window: 1000 })).toBeNull();
  expect(await check({})).toBeNull();
  expect(await check({ base_url: "", temperature: null })).toBeNull();
});

test("each wrong field is named, with what it has to be and never with what it was", async () => {
  const wrong = await check({ temperature: 3, base_url: "nowhere", api_key: "sk-1" });
  expect(wrong).toMatchObject({ code: "provider.invalid" });
  expect(wrong?.details.issues.map(({ path }) => path).toSorted()).toEqual([
    "config.api_key",
    "config.base_url",
    "config.temperature",
  ]);
  expect(JSON.stringify(wrong?.details) + wrong?.message).not.toContain("sk-1");
  expect((await check({ context_window: "big" }))?.message).toContain("config.context_window");
});

test("a field that the plugin does not have is named with those that it has, where it says that these are all", async () => {
  const wrong = await check({ modle: "m" });
  expect(wrong?.message).toContain("config.modle: llm-x has no such field");
  expect(wrong?.message).toContain("api_key, base_url, model, temperature, context_window");
  const { additionalProperties: _, ...open } = config_schema;
  expect(await check({ modle: "m" }, ["modle"], open)).toBeNull();
  expect(await check({ anything: 1 }, ["anything"], null)).toBeNull();
});

test("what was wrong before hinders no other change", async () => {
  expect(await check({ temperature: 9, model: "m" }, ["model"])).toBeNull();
  expect((await check({ temperature: 9, model: "m" }, ["temperature"]))?.message).toContain("temperature");
});
