/**
 * Skills are instructions that a model reads when a task needs them. They are files in packages; a caller who sees
 * a binding of the whole package sees its skills. Skills of a project take precedence over those of the org; a
 * skill whose name is taken is listed under `<publisher>:<package>:<name>`.
 */

import { BackplaneError, type Skill, sanitizeText } from "@backplane/contract";
import type { BoundPackage, KernelDeps, Scope } from "@backplane/ports";
import { sortProjectFirst, takesTraffic } from "../bindings/rollout.ts";
import { bindsWholePackage } from "../exports/whole-package.ts";

interface SkillText {
  name: string;
  file: string;
  text: string;
  /** All files of the skill, as paths that `file` accepts. */
  files: string[];
}

export interface Skills {
  /** Lists the skills sorted by name. */
  list(scope: Scope): Promise<{ name: string; description: string }[]>;
  /** Drops the cache after bindings have changed on this node. */
  forget(): void;
  /** Reads SKILL.md, or another file of the skill. Throws skill.not_found. */
  read(scope: Scope, name: string, file?: string): Promise<SkillText>;
}

interface FoundSkill extends Skill {
  digest: string;
}

const MAIN_FILE = "SKILL.md";
/** A larger file would take up too much of a model's context. */
const FILE_BYTES = 256 * 1024;
const FRESH_MS = 1_000;
const MAX_CACHED_SCOPES = 256;

export function createSkills(deps: Pick<KernelDeps, "store" | "importer" | "clock">): Skills {
  const { store, importer, clock } = deps;
  const cache = new Map<string, { at: number; skills: Promise<FoundSkill[]> }>();

  async function readSkills(scope: Scope): Promise<FoundSkill[]> {
    const bound = await store.bindings.discover(scope, "tool");
    const skills = new Map<string, FoundSkill>();
    for (const { package: pack } of sortProjectFirst(bound.filter(hasSkills))) {
      for (const skill of pack.manifest.skills ?? []) {
        const existing = skills.get(skill.name);
        if (existing?.digest === pack.digest) continue;
        const name =
          existing === undefined ? skill.name : `${pack.package_id.replace("/", ":")}:${skill.name}`;
        if (!skills.has(name))
          skills.set(name, {
            ...skill,
            description: sanitizeText(skill.description),
            name,
            digest: pack.digest,
          });
      }
    }
    return [...skills.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  function listCached(scope: Scope): Promise<FoundSkill[]> {
    const key = `${scope.org_id}\n${scope.project_id}`;
    const now = clock.monotonic();
    const cached = cache.get(key);
    if (cached !== undefined && now - cached.at < FRESH_MS) return cached.skills;
    const skills = readSkills(scope);
    cache.delete(key);
    cache.set(key, { at: now, skills });
    if (cache.size > MAX_CACHED_SCOPES) cache.delete(cache.keys().next().value!);
    skills.catch(() => cache.delete(key));
    return skills;
  }

  return {
    forget: () => cache.clear(),
    list: async (scope) => (await listCached(scope)).map(({ name, description }) => ({ name, description })),
    async read(scope, name, file = MAIN_FILE) {
      const skill = (await listCached(scope)).find((listed) => listed.name === name);
      if (skill === undefined) throw new BackplaneError("skill.not_found", `There is no skill ${name}.`);
      const files = await importer.listFiles(skill.digest, skill.path);
      if (!files.includes(file))
        throw new BackplaneError("skill.not_found", `The skill ${name} has no file ${file}.`, {
          details: { files: files.slice(0, 100) },
        });
      const bytes = await importer.readFile(skill.digest, `${skill.path}/${file}`, FILE_BYTES);
      return { name, file, text: decodeText(bytes, file), files };
    },
  };
}

function hasSkills(bound: BoundPackage): boolean {
  return bindsWholePackage(bound) && takesTraffic(bound) && (bound.package.manifest.skills?.length ?? 0) > 0;
}

function decodeText(bytes: Uint8Array | null, file: string): string {
  if (bytes === null)
    throw new BackplaneError("skill.not_found", `${file} is larger than ${FILE_BYTES} bytes.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new BackplaneError("skill.not_found", `${file} is not UTF-8 text.`);
  }
}
