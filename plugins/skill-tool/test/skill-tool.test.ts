import { BackplaneError, type Json, type JsonObject, type KernelToolCall } from "@backplane/contract";
import { expect, test } from "vitest";
import { scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { plugin } from "../src/plugin.ts";

const SKILLS = [
  { name: "fill-forms", description: "Fills in forms" },
  { name: "write-letters", description: "Writes letters" },
];

async function loadSkillTool() {
  const requests: [string, JsonObject, string | undefined][] = [];
  const service = async (name: string, args: JsonObject, as?: string): Promise<Json> => {
    requests.push([name, args, as]);
    if (name === "skill.list") return SKILLS;
    if (args.name !== "fill-forms") throw new BackplaneError("skill.not_found", "there is no such skill");
    return {
      name: "fill-forms",
      file: args.file ?? "SKILL.md",
      text: "# Forms",
      files: ["SKILL.md", "a.md"],
    };
  };
  const ctx = scriptedContext({ name: "skill-tool", service });
  await plugin.onLoad!(ctx);
  const tool = ctx.tools[0]!;
  const call = { id: "c", invocation_id: "inv_1", as: "as_1" } as KernelToolCall;
  return {
    tool,
    requests,
    runTool: async (args: JsonObject) => JSON.stringify(await tool.run(args, call)),
  };
}

test("is read-only, needs no approval, and acts on behalf of its caller", async () => {
  const { tool, requests, runTool } = await loadSkillTool();
  expect(tool).toMatchObject({ name: "skill", effect_class: "read_only", requires_approval: false });
  await runTool({});
  expect(requests).toEqual([["skill.list", {}, "as_1"]]);
});

test("lists skills, finds them by words, and reads a skill or one of its files", async () => {
  const { runTool } = await loadSkillTool();
  expect(await runTool({})).toContain("write-letters");
  expect(await runTool({ query: "FORM please" })).not.toContain("write-letters");
  expect(await runTool({ query: "astronomy" })).toContain("No skill matches.");
  expect(await runTool({ name: "fill-forms" })).toContain("Files of this skill: a.md");
  expect(await runTool({ name: "fill-forms", file: "a.md" })).toContain("read fill-forms/a.md");
});

test("reports a missing skill to the model as a validation error", async () => {
  const { runTool } = await loadSkillTool();
  expect(JSON.parse(await runTool({ name: "other" }))).toMatchObject({ ok: false, kind: "validation" });
});
