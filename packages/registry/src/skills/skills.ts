/**
 * Skills: instructions that a model reads when a task calls for them. They lie in packages; whoever sees a binding of
 * the whole package sees its skills. A project's come before the org's; a name that is taken gets its package in front.
 */

import { BackplaneError, plainWords, type Skill } from "@backplane/contract";
import type { BoundPackage, KernelDeps, Scope } from "@backplane/ports";
import { takesTraffic } from "../bindings/rollout.ts";
import { bindsWholePackage } from "../exports/whole-package.ts";

interface SkillText {
  name: string;
  file: string;
  text: string;
  /** All that the skill has, by paths that `file` takes. */
  files: string[];
}

export interface Skills {
  /** By name. */
  list(scope: Scope): Promise<{ name: string; description: string }[]>;
  /** After a change of bindings on this node. */
  forget(): void;
  /** Its SKILL.md, or another of its files. Throws skill.not_found. */
  read(scope: Scope, name: string, file?: string): Promise<SkillText>;
}

interface Known extends Skill {
  digest: string;
}

const MAIN = "SKILL.md";
/** What a model can make use of at once. */
const FILE_BYTES = 256 * 1024;
const FRESH_MS = 1_000;
const KEPT = 256;

export function createSkills(deps: Pick<KernelDeps, "store" | "importer" | "clock">): Skills {
  const { store, importer, clock } = deps;
  const known = new Map<string, { at: number; skills: Promise<Known[]> }>();

  async function find(scope: Scope): Promise<Known[]> {
    const bound = await store.bindings.discover(scope, "tool");
    const skills = new Map<string, Known>();
    for (const { package: pack } of inOrder(bound.filter(hasSkills))) {
      for (const skill of pack.manifest.skills ?? []) {
        const taken = skills.get(skill.name);
        if (taken?.digest === pack.digest) continue;
        const name = taken === undefined ? skill.name : `${pack.package_id.replace("/", ":")}:${skill.name}`;
        if (!skills.has(name))
          skills.set(name, {
            ...skill,
            description: plainWords(skill.description),
            name,
            digest: pack.digest,
          });
      }
    }
    return [...skills.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  function all(scope: Scope): Promise<Known[]> {
    const key = `${scope.org_id}\n${scope.project_id}`;
    const now = clock.monotonic();
    const there = known.get(key);
    if (there !== undefined && now - there.at < FRESH_MS) return there.skills;
    const skills = find(scope);
    known.delete(key);
    known.set(key, { at: now, skills });
    if (known.size > KEPT) known.delete(known.keys().next().value!);
    skills.catch(() => known.delete(key));
    return skills;
  }

  return {
    forget: () => known.clear(),
    list: async (scope) => (await all(scope)).map(({ name, description }) => ({ name, description })),
    async read(scope, name, file = MAIN) {
      const skill = (await all(scope)).find((one) => one.name === name);
      if (skill === undefined) throw new BackplaneError("skill.not_found", `there is no skill ${name}`);
      const files = await importer.files(skill.digest, skill.path);
      if (!files.includes(file))
        throw new BackplaneError("skill.not_found", `the skill ${name} has no file ${file}`, {
          details: { files: files.slice(0, 100) },
        });
      const bytes = await importer.read(skill.digest, `${skill.path}/${file}`, FILE_BYTES);
      return { name, file, text: textOf(bytes, file), files };
    },
  };
}

function hasSkills(bound: BoundPackage): boolean {
  return bindsWholePackage(bound) && takesTraffic(bound) && (bound.package.manifest.skills?.length ?? 0) > 0;
}

function inOrder(bound: readonly BoundPackage[]): BoundPackage[] {
  return [...bound].sort((a, b) => {
    const [first, second] = [a, b].map(({ binding }) => (binding.scope.project_id === null ? 1 : 0));
    return first! - second! || (a.binding.created_at < b.binding.created_at ? -1 : 1);
  });
}

function textOf(bytes: Uint8Array | null, file: string): string {
  if (bytes === null)
    throw new BackplaneError(
      "skill.not_found",
      `${file} is larger than ${FILE_BYTES} bytes and cannot be read whole`,
    );
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new BackplaneError("skill.not_found", `${file} is no text`);
  }
}
