/**
 * The `skill` tool: finds skills by words, reads one, or reads a file that a skill refers to. The tool is
 * read-only.
 */
import {
  codeOf,
  type JsonObject,
  type KernelTool,
  kernelTool,
  markdownBlock,
  type PluginContext,
  toolError,
  toolOk,
} from "@backplane/sdk/kernel";

const MAX_SHOWN = 50;

const PARAMETERS = {
  type: "object",
  properties: {
    name: {
      type: "string",
      minLength: 1,
      maxLength: 256,
      description: "The skill to read. If omitted, the skills are listed.",
    },
    file: {
      type: "string",
      minLength: 1,
      maxLength: 512,
      description:
        "Another file of that skill, such as references/forms.md. If omitted, its SKILL.md is read.",
    },
    query: { type: "string", maxLength: 500, description: "List only skills with one of these words." },
  },
  additionalProperties: false,
} as const;

interface ListedSkill {
  name: string;
  description: string;
}

interface SkillFile {
  name: string;
  file: string;
  text: string;
  files: string[];
}

export function skillTool(ctx: PluginContext): KernelTool {
  return kernelTool({
    name: "skill",
    description:
      "Reads skills: instructions for certain tasks, with the files that they refer to. Without a name it lists them.",
    parameters: PARAMETERS,
    requires_approval: false,
    effect_class: "read_only",
    timeout_ms: 15_000,
    async run({ name, file, query }, call) {
      try {
        if (name === undefined) {
          const all = (await ctx.service("skill.list", {}, call.as)) as unknown as ListedSkill[];
          return buildListOutput(findMatching(all, query ?? ""));
        }
        const skill: JsonObject = file === undefined ? { name } : { name, file };
        return buildFileOutput((await ctx.service("skill.read", skill, call.as)) as unknown as SkillFile);
      } catch (error) {
        const kind = codeOf(error) === "skill.not_found" ? "validation" : "internal";
        return toolError(kind, (error as Error).message);
      }
    },
  });
}

function findMatching(all: readonly ListedSkill[], query: string): readonly ListedSkill[] {
  const words = query
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");
  if (words.length === 0) return all;
  return all.filter(({ name, description }) => {
    const text = `${name} ${description}`.toLowerCase();
    return words.some((word) => text.includes(word));
  });
}

function buildListOutput(skills: readonly ListedSkill[]) {
  const lines = skills.slice(0, MAX_SHOWN).map(({ name, description }) => `- ${name}: ${description}`);
  const more =
    skills.length > MAX_SHOWN
      ? [`… and ${skills.length - MAX_SHOWN} more; narrow the list with a query.`]
      : [];
  const text = lines.length === 0 ? "No skill matches." : [...lines, ...more].join("\n");
  return toolOk({ brief: `skill: ${skills.length} found`, display: markdownBlock(text) });
}

function buildFileOutput({ name, file, text, files }: SkillFile) {
  const other_files = files.filter((path) => path !== file);
  const note =
    other_files.length === 0 ? "" : `\n\nFiles of this skill: ${other_files.slice(0, MAX_SHOWN).join(", ")}`;
  return toolOk({ brief: `skill: read ${name}/${file}`, display: markdownBlock(`${text}${note}`) });
}
