import type { Json } from "@backplane/contract";
import { expect, test } from "vitest";
import {
  activeInstanceId,
  groupInstances,
  isInstanceId,
  parseInstanceKey,
} from "../../src/config/provider-instances.ts";

test.each([
  ["abc", true],
  ["llm-openai", true],
  ["0-9", true],
  ["x".repeat(64), true],
  ["x".repeat(65), false],
  ["ab", false],
  ["-ab", false],
  ["ab-", false],
  ["a.b", false],
  ["Abc", false],
  ["a_b", false],
  ["abc\n", false],
  ["active", false],
])("decides whether %j is an instance id: %s", (id, ok) => {
  expect(isInstanceId(id)).toBe(ok);
});

test("reads model_name as the model of an instance without one", () => {
  const modelOf = (...fields: [string, Json][]) =>
    groupInstances(
      new Map<string, Json>([
        ["providers.prod.plugin", "llm-openai"],
        ...fields.map(([field, value]): [string, Json] => [`providers.prod.${field}`, value]),
      ]),
    )[0]!.config.model;
  expect(modelOf(["model_name", "m2"])).toBe("m2");
  expect(modelOf(["model", ""], ["model_name", "m2"])).toBe("m2");
  expect(modelOf(["model", "m1"], ["model_name", "m2"])).toBe("m1");
});

test("groups keys into instances and skips ids that are invalid or have no plugin", () => {
  const entries = new Map<string, Json>([
    ["provider", "prod"],
    ["providers.prod.plugin", "llm-openai"],
    ["providers.prod.label", "OpenAI prod"],
    ["providers.prod.base_url", "https://api.example.com"],
    ["providers.prod.params.temperature", 0.2],
    ["providers.half.base_url", "x"],
    ["providers.azure-prod.plugin", "llm-openai"],
    ["providers.NO.plugin", "llm-openai"],
    ["providers.active.plugin", "llm-openai"],
    ["providers.number.plugin", 1],
    ["providers.prod", "no field"],
    ["plugin.llm_openai.model", "m"],
  ]);
  expect(groupInstances(entries)).toEqual([
    { id: "azure-prod", plugin: "llm-openai", label: "azure-prod", config: {} },
    {
      id: "prod",
      plugin: "llm-openai",
      label: "OpenAI prod",
      config: { base_url: "https://api.example.com", "params.temperature": 0.2 },
    },
  ]);
});

test("reads the active instance from the key provider", () => {
  expect(activeInstanceId(new Map([["provider", "prod"]]))).toBe("prod");
  for (const value of ["No", "active", 7, null]) {
    expect(activeInstanceId(new Map<string, Json>([["provider", value]]))).toBeNull();
  }
  expect(activeInstanceId(new Map())).toBeNull();
});

test("maps a written key to the one instance that it changes", () => {
  expect(parseInstanceKey("providers.prod.api_key")).toBe("prod");
  expect(parseInstanceKey("providers.prod.a.b")).toBe("prod");
  for (const key of ["provider", "providers.prod", "plugin.prod.x", "providers.NO.x"]) {
    expect(parseInstanceKey(key)).toBeNull();
  }
});
