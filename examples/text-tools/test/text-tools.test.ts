import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { hostToolFiles } from "../../../packages/sdk/test/host/tool-host.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));

test("lists both files as tools with the risk and the category that they declare", async () => {
  const host = await hostToolFiles(folder);
  const { tools, warnings } = await host.describe();
  expect(warnings).toEqual([]);
  expect(tools.map(({ name, risk, category, load_error }) => [name, risk, category, load_error])).toEqual([
    ["choose_style", "low", "text", null],
    ["word_count", "low", "text", null],
  ]);
});

test("word_count counts words and streams output for each paragraph", async () => {
  const host = await hostToolFiles(folder);
  const { status, result } = await host.call("word_count", { text: "one two\n\nthree" });
  expect([status, result.content]).toEqual(["succeeded", [{ type: "text", text: "3 words" }]]);
  expect(host.events).toEqual([
    { type: "output", text: "paragraph 1: 2\n" },
    { type: "output", text: "paragraph 2: 1\n" },
  ]);
});

test("choose_style ends the turn", async () => {
  const host = await hostToolFiles(folder);
  const { result } = await host.call("choose_style");
  expect(result).toMatchObject({ yield_to_user: true, status: "waiting for you" });
});
