import { codeOf, TOOL_ERROR_KINDS } from "@backplane/contract";
import {
  defineKernelPlugin,
  jsonBlock,
  kernelTool,
  markdownBlock,
  openaiFunction,
  toolError,
  toolOk,
} from "@backplane/sdk/kernel";
import { testKernelPlugin } from "@backplane/sdk/testing";
import { expect, expectTypeOf, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PARAMETERS = {
  type: "object",
  properties: {
    city: { type: "string", minLength: 1 },
    days: { type: "integer" },
    unit: { enum: ["c", "f"] },
  },
  required: ["city"],
  additionalProperties: false,
} as const;

const weather = kernelTool({
  name: "weather",
  description: "Tells the weather.",
  parameters: PARAMETERS,
  requires_approval: true,
  effect_class: "read_only",
  run(args, call) {
    expectTypeOf(args).toEqualTypeOf<{ city: string; days?: number; unit?: "c" | "f" }>();
    call.progress({ type: "progress", message: args.city });
    if (args.city === "Atlantis") return toolError("validation", "there is no such city");
    if (args.days === 1) return `Rain in ${args.city}\nand more rain`;
    return toolOk({ brief: "rain", display: jsonBlock({ city: args.city, rain: true }) });
  },
  approvalBrief: (args) => `Ask about ${args.city}\nin secret`.padEnd(200, "!"),
});

const plugin = defineKernelPlugin({
  name: "tool-weather",
  version: "1.0.0",
  category: "tool",
  subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool(weather),
});

verifies(
  "ktool.contract",
  "uses one schema for types and the OpenAI function, and returns a brief and a block",
  async () => {
    expect(openaiFunction(weather)).toEqual({
      name: "weather",
      description: "Tells the weather.",
      parameters: PARAMETERS,
    });
    const run = await testKernelPlugin(plugin);
    expect(await run.tool("weather", { city: "Oslo" })).toEqual({
      ok: true,
      brief: "rain",
      display: { kind: "json", data: { city: "Oslo", rain: true } },
    });
    expect(await run.tool("weather", { city: "Oslo", days: 1 })).toEqual({
      ok: true,
      brief: "Rain in Oslo",
      display: { kind: "text", text: "Rain in Oslo\nand more rain" },
    });
    expect(await run.tool("weather", { city: "Atlantis" })).toEqual({
      ok: false,
      kind: "validation",
      brief: "there is no such city",
      display: { kind: "text", text: "there is no such city" },
    });
    expect(run.progress).toHaveLength(3);
    expect(await run.tools.get("weather")!.approvalBrief!({ city: "Oslo" })).toBe("Ask about Oslo");

    expect(toolOk({ brief: "b", display: markdownBlock("# Hi") }).display).toEqual({
      kind: "markdown",
      markdown: "# Hi",
    });
    const content = [{ type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" }];
    expect(toolOk({ brief: "b", display: "a chart", content })).toMatchObject({ content });
    expect(TOOL_ERROR_KINDS).toEqual(["validation", "timeout", "rejected", "crashed", "internal", "failed"]);
    for (const kind of TOOL_ERROR_KINDS)
      expect(toolError(kind, "b", "more")).toMatchObject({ kind, ok: false });
    const long = "x".repeat(200);
    expect(toolOk(long)).toMatchObject({ brief: `${"x".repeat(79)}…`, display: { text: long } });
    expect(toolError("internal", long).brief).toHaveLength(80);
    expect(toolOk("y".repeat(80)).brief).toBe("y".repeat(80));
    // The cut never splits a character.
    expect(toolOk(`${"x".repeat(78)}🙂${long}`).brief).toBe(`${"x".repeat(78)}…`);
  },
);

test("refuses to define a tool that no model could call", () => {
  const defineTool = (name: string, parameters: { type: "object" }) =>
    kernelTool({ name, description: "", parameters, run: () => "" });
  const refusal = expect.objectContaining({ code: "plugin.invalid" });
  expect(() => defineTool("no spaces", { type: "object" })).toThrow(refusal);
  expect(() => defineTool("fine", { type: "array" as "object" })).toThrow(refusal);
});

test.each([
  [{ name: "Tool_Weather" }, /its name "Tool_Weather" is not kebab-case/],
  [{ name: "a--b" }, /not kebab-case/],
  [{ version: "" }, /it has no version/],
  [{ category: "gadget" }, /its category "gadget" is not one of adapter, tool, llm-provider/],
  [{ subscriptions: ["a"] }, /subscriptions is not a function/],
  [{ onLoad: true }, /onLoad is not a function/],
  [{ requires: "web" }, /requires is not a list of strings/],
  [{ toolName: "old", jsonSchema: {} }, /needs onEvent/],
  [{ toolName: "old" }, /needs the jsonSchema/],
  [{ category: "skill", toolName: "old" }, /only a plugin of category tool/],
  [{ routes: [{ method: "GET", path: "/a", scope: "admin" }] }, /only a plugin of category adapter/],
  [{ category: "adapter", routes: [{ method: "GET", path: "a", scope: "admin" }] }, /must start with \//],
  [{ category: "adapter", routes: [{ method: "GET", path: "/a", scope: "admin" }] }, /needs onRequest/],
])("refuses to define a plugin with %j", (change, message) => {
  let thrown: unknown;
  try {
    defineKernelPlugin({ ...plugin, ...change } as unknown as typeof plugin);
  } catch (error) {
    thrown = error;
  }
  expect(codeOf(thrown)).toBe("plugin.invalid");
  expect((thrown as Error).message).toMatch(message);
});

test("rejects a misspelled method at compile time", () => {
  const define = () =>
    defineKernelPlugin({
      name: "typo",
      version: "1.0.0",
      category: "skill",
      subscriptions: () => [],
      // @ts-expect-error a misspelled method would never be called
      onevent() {},
    });
  expect(define().name).toBe("typo");
});
