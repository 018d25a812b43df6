import { BackplaneError, type Json, type JsonObject, type KernelToolCall } from "@backplane/contract";
import { expect, test } from "vitest";
import { scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { plugin } from "../src/plugin.ts";

async function loadPinTool() {
  const requests: [string, JsonObject, string | undefined][] = [];
  const service = async (name: string, args: JsonObject, as?: string): Promise<Json> => {
    requests.push([name, args, as]);
    if (name === "pin.list") return [{ entry_id: 4, text: "keep\nthis" }];
    if (name === "pin.remove") return args.entry_id === 4;
    if (args.quote === "absent") throw new BackplaneError("request.invalid", "no such text");
    return { entry_id: 7, text: "words" };
  };
  const ctx = scriptedContext({ name: "pin-tool", service });
  await plugin.onLoad!(ctx);
  const tool = ctx.tools[0]!;
  const call = { id: "c", invocation_id: "inv_1", as: "as_1" } as KernelToolCall;
  return { tool, requests, runTool: async (args: JsonObject) => JSON.stringify(await tool.run(args, call)) };
}

test("pins the quoted words or the last message on behalf of its caller", async () => {
  const { tool, requests, runTool } = await loadPinTool();
  expect(tool).toMatchObject({ name: "pin", effect_class: "idempotent_write" });
  expect(await runTool({ quote: "the words" })).toContain("pinned entry 7");
  expect(await runTool({})).toContain("pinned entry 7");
  expect(requests).toEqual([
    ["pin.add", { quote: "the words" }, "as_1"],
    ["pin.add", {}, "as_1"],
  ]);
});

test("lists and removes pins", async () => {
  const { runTool } = await loadPinTool();
  expect(await runTool({ action: "list" })).toContain("entry 4: keep this");
  expect(await runTool({ action: "unpin", entry_id: 4 })).toContain("unpinned entry 4");
  expect(await runTool({ action: "unpin", entry_id: 5 })).toContain("is not pinned");
});

test("reports an unknown quote or a missing entry_id to the model as a validation error", async () => {
  const { runTool } = await loadPinTool();
  const invalid: JsonObject[] = [{ quote: "absent" }, { action: "unpin" }];
  for (const args of invalid)
    expect(JSON.parse(await runTool(args))).toMatchObject({ ok: false, kind: "validation" });
});
