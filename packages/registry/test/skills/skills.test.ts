import { plugin as skillTool } from "@backplane/plugin-skill-tool";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestSession, type TestSession } from "../../../agent/test/loop/test-session.ts";

const SKILLS = [
  { name: "fill-forms", description: "Fills in forms", path: "skills/fill-forms" },
  { name: "write-letters", description: "Writes letters", path: "skills/write-letters" },
];

async function createSkillSession(): Promise<TestSession> {
  const fixture = await createTestSession({ plugins: [skillTool] });
  fixture.importer.texts.set("skills/fill-forms/SKILL.md", "# Forms\nRead references/boxes.md");
  fixture.importer.texts.set("skills/fill-forms/references/boxes.md", "Box 1");
  fixture.importer.texts.set("plugin.json", "{}");
  return fixture;
}

const skillPackage = (package_id: string, skills = SKILLS) =>
  manifest([], { package_id, runtime: { protocol: "skills", entrypoint: ["skills"] }, skills } as never);

/** The last request to the model, as JSON. */
const readLastModelRequest = ({ events }: TestSession): string =>
  JSON.stringify(events.filter(({ kind }) => kind === "llm.call.request").at(-1)!.payload);

test("lists skills in the turn and reads them with the skill tool", async () => {
  const fixture = await createSkillSession();
  await fixture.say("hi");
  expect(readLastModelRequest(fixture)).not.toContain("<skills>");
  await fixture.bind(skillPackage("acme/office"));
  await fixture.say("hi again");
  expect(readLastModelRequest(fixture)).toMatch(/<skills>.*fill-forms.*Fills in forms.*<\/skills>/);
  const callSkillTool = async (input: object) =>
    JSON.stringify((await fixture.call({ export_id: "skill", input: input as never })).tool_result);
  expect(await callSkillTool({})).toContain("write-letters: Writes letters");
  expect(await callSkillTool({ query: "letter" })).not.toContain("fill-forms");
  expect(await callSkillTool({ name: "fill-forms" })).toContain("# Forms");
  expect(await callSkillTool({ name: "fill-forms", file: "references/boxes.md" })).toContain("Box 1");
  expect(await callSkillTool({ name: "fill-forms", file: "../../plugin.json" })).toContain("has no file");
  expect(await callSkillTool({ name: "nothing" })).toContain("There is no skill");
});

test("shows skills where their binding is visible, and prefixes a taken name with its package", async () => {
  const fixture = await createSkillSession();
  await fixture.bind(skillPackage("acme/office"));
  await fixture.bind(skillPackage("other/office", [SKILLS[0]!]));
  const listNames = async (project_id: string) => {
    const caller = { ...user, scope: { ...user.scope, project_id } };
    const ended = await fixture.call({ export_id: "skill", input: {} }, caller);
    return JSON.stringify(ended.tool_result);
  };
  const project_names = await listNames("proj_default");
  expect(project_names).toContain("- fill-forms:");
  expect(project_names).toContain("- other:office:fill-forms:");
  expect(await listNames("proj_other")).toContain("No skill matches.");
});

test("binds a package of skills only as a whole", async () => {
  const fixture = await createSkillSession();
  const bound = await fixture.bind(skillPackage("acme/office"));
  expect([bound.export_id, bound.status]).toEqual(["*", "active"]);
  await expect(fixture.bind(skillPackage("acme/other"), { export_id: "fill-forms" })).rejects.toMatchObject({
    code: "binding.invalid",
  });
  expect((await fixture.kernel.catalog.list(admin)).some(({ name }) => name === "fill-forms")).toBe(false);
});
