import { plugin as skillTool } from "@backplane/plugin-skill-tool";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { openTalk, type Talk } from "../../../agent/test/loop/talk.ts";

const SKILLS = [
  { name: "fill-forms", description: "Fills in forms", path: "skills/fill-forms" },
  { name: "write-letters", description: "Writes letters", path: "skills/write-letters" },
];

async function openSkilled(): Promise<Talk> {
  const talk = await openTalk({ plugins: [skillTool] });
  talk.importer.texts.set("skills/fill-forms/SKILL.md", "# Forms\nRead references/boxes.md");
  talk.importer.texts.set("skills/fill-forms/references/boxes.md", "Box 1");
  talk.importer.texts.set("plugin.json", "{}");
  return talk;
}

const skilled = (package_id: string, skills = SKILLS) =>
  manifest([], { package_id, runtime: { protocol: "skills", entrypoint: ["skills"] }, skills } as never);

/** The system prompt of the last model call. */
const lastTold = ({ events }: Talk): string =>
  JSON.stringify(events.filter(({ kind }) => kind === "llm.call.request").at(-1)!.payload);

test("lists skills in the turn and reads them with the skill tool", async () => {
  const talk = await openSkilled();
  await talk.say("hi");
  expect(lastTold(talk)).not.toContain("<skills>");
  await talk.bind(skilled("acme/office"));
  await talk.say("hi again");
  expect(lastTold(talk)).toMatch(/<skills>.*fill-forms.*Fills in forms.*<\/skills>/);
  const ask = async (input: object) =>
    JSON.stringify((await talk.call({ export_id: "skill", input: input as never })).tool_result);
  expect(await ask({})).toContain("write-letters: Writes letters");
  expect(await ask({ query: "letter" })).not.toContain("fill-forms");
  expect(await ask({ name: "fill-forms" })).toContain("# Forms");
  expect(await ask({ name: "fill-forms", file: "references/boxes.md" })).toContain("Box 1");
  expect(await ask({ name: "fill-forms", file: "../../plugin.json" })).toContain("has no file");
  expect(await ask({ name: "nothing" })).toContain("there is no skill");
});

test("shows skills where their binding is visible, and prefixes a taken name with its package", async () => {
  const talk = await openSkilled();
  await talk.bind(skilled("acme/office"));
  await talk.bind(skilled("other/office", [SKILLS[0]!]));
  const names = async (project_id: string) => {
    const caller = { ...user, scope: { ...user.scope, project_id } };
    const ended = await talk.call({ export_id: "skill", input: {} }, caller);
    return JSON.stringify(ended.tool_result);
  };
  const own = await names("proj_default");
  expect(own).toContain("- fill-forms:");
  expect(own).toContain("- other:office:fill-forms:");
  expect(await names("proj_other")).toContain("No skill fits.");
});

test("binds a package of skills only as a whole", async () => {
  const talk = await openSkilled();
  const bound = await talk.bind(skilled("acme/office"));
  expect([bound.export_id, bound.status]).toEqual(["*", "active"]);
  await expect(talk.bind(skilled("acme/other"), { export_id: "fill-forms" })).rejects.toMatchObject({
    code: "binding.invalid",
  });
  expect((await talk.kernel.catalog.list(admin)).some(({ name }) => name === "fill-forms")).toBe(false);
});
