/** The skills of a plugin as a package of their own, which runs nothing. */
import type { Skill } from "@backplane/contract";

export interface SkillsDraft {
  package_id: string;
  version: string;
  name: string;
  description: string;
  license: string;
  skills: readonly Skill[];
}

export function skillsManifest({ skills, ...about }: SkillsDraft): string {
  const lines = (values: object) =>
    // Text is spelled in TOML as it is in JSON.
    Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return [
    ...lines({ api_version: "vai.plugin.v1", ...about }),
    "",
    "[runtime]",
    ...lines({ protocol: "skills", entrypoint: ["skills"] }),
    ...skills.flatMap(({ name, description, path }) => [
      "",
      "[[skills]]",
      ...lines({ name, description, path }),
    ]),
    "",
  ].join("\n");
}
