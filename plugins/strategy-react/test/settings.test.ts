import { expect, test } from "vitest";
import { DEFAULT_SYSTEM_PROMPT, readSettings } from "../src/settings.ts";

test("returns the defaults without configuration", () => {
  expect(readSettings({})).toEqual({
    settings: { system_prompt: DEFAULT_SYSTEM_PROMPT, memory: true, memory_k: 5, remember: true },
    problems: [],
  });
});

test("treats an invalid value as absent and reports it", () => {
  const { settings, problems } = readSettings({ memory: "yes", memory_k: 51, temperature: 3, model: 7 });
  expect(settings).toEqual(readSettings({}).settings);
  expect(problems).toEqual([
    "memory is not true or false",
    "memory_k is not a whole number from 0 to 50",
    "temperature is not a number from 0 to 2",
    "model is not the name of a model",
  ]);
});

test("offers no tool for an invalid allow-list", () => {
  expect(readSettings({ tools: "read_file" }).settings.tools).toEqual([]);
  expect(readSettings({ tools: ["read_file"] }).settings.tools).toEqual(["read_file"]);
  expect(readSettings({ tools: null }).settings.tools).toBeUndefined();
});
