/** The import table of ARCHITECTURE.md as data, and the check of a tree against it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve, sep } from "node:path";

export interface ModuleRule {
  module: string;
  /** `sdk` or `sdk/kernel`: the latter allows only that entry. */
  modules: string[];
  /** Null for any builtin of Node. */
  builtins: string[] | null;
}

export function readImportTable(markdown: string): ModuleRule[] {
  const rules: ModuleRule[] = [];
  let inside = false;
  for (const line of markdown.split("\n")) {
    if (line.startsWith("| module |")) inside = true;
    else if (inside && !line.startsWith("|")) break;
    else if (inside && !line.startsWith("|-")) {
      const [module, modules, builtins] = line
        .split("|")
        .slice(1, 4)
        .map((cell) => cell.trim().replaceAll("`", ""));
      const list = (cell: string) => (cell === "nothing" ? [] : cell.split(",").map((part) => part.trim()));
      rules.push({
        module: module!,
        modules: list(modules!),
        builtins: builtins === "any" ? null : list(builtins!),
      });
    }
  }
  return rules;
}

/** Every import under packages/MODULE/src and plugins/NAME/src that the table does not allow, as `file: reason`. */
export function findForbiddenImports(root: string, rules: ModuleRule[]): string[] {
  const violations: string[] = [];
  for (const { folder, module } of modulesUnder(root)) {
    const rule = rules.find((candidate) => candidate.module === module);
    if (rule === undefined) {
      violations.push(`${folder}: not in the import table`);
      continue;
    }
    const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    // A module without exports is bundled into files, so its libraries are needed only for the build.
    const bundled = manifest.exports === undefined ? manifest.devDependencies : {};
    const declared = Object.keys({ ...manifest.dependencies, ...bundled });
    for (const { file, text } of readSources(root, folder)) {
      for (const specifier of importsOf(text)) {
        const reason = findImportProblem(specifier, file, resolve(root, folder, "src"), rule, declared);
        if (reason !== null)
          violations.push(`${relative(resolve(root), file).replaceAll(sep, "/")}: ${reason}`);
      }
    }
  }
  return violations.sort();
}

/** Each workspace package is a module; the bundled plugins together are one. */
export function modulesUnder(root: string): { folder: string; module: string }[] {
  const under = (folder: string) => (existsSync(join(root, folder)) ? readdirSync(join(root, folder)) : []);
  return [
    ...under("packages").map((module) => ({ folder: `packages/${module}`, module })),
    ...under("plugins").map((name) => ({ folder: `plugins/${name}`, module: "plugins" })),
  ].filter(({ folder }) => existsSync(join(root, folder, "src")));
}

export function readSources(root: string, folder: string): { file: string; text: string }[] {
  return readdirSync(resolve(root, folder, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|tsx|mts|cts)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ file, text: readFileSync(file, "utf8") }));
}

function findImportProblem(
  specifier: string,
  file: string,
  source: string,
  rule: ModuleRule,
  declared: string[],
): string | null {
  if (specifier.startsWith(".")) {
    const inside = resolve(dirname(file), specifier).startsWith(source + sep);
    return inside ? null : `${specifier} is outside its module`;
  }
  const builtin = specifier.replace(/^node:/, "");
  if (specifier.startsWith("node:") || builtinModules.includes(builtin)) {
    const allowed = rule.builtins === null || rule.builtins.includes(`node:${builtin}`);
    return allowed ? null : `${rule.module} may not use ${specifier}`;
  }
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  if (name.startsWith("@backplane/")) {
    const entry = specifier.slice("@backplane/".length);
    const other = name.slice("@backplane/".length);
    // A module may import itself by its package name.
    if (other === rule.module) return null;
    // `sdk` allows every entry of the module, `sdk/kernel` only that entry.
    const allowed = rule.modules.some((name) => (name.includes("/") ? name === entry : name === other));
    if (!allowed) return `${rule.module} may not import ${specifier}`;
  }
  return declared.includes(name) ? null : `${name} is not a dependency of ${rule.module}`;
}

export function importsOf(text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\b[^;"'`]*?from\s*["']([^"']+)["']|(?:^|\n)\s*import\s*["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']|\brequire\(\s*["']([^"']+)["']/g;
  return [...text.matchAll(pattern)].map((match) => (match[1] ?? match[2] ?? match[3] ?? match[4])!);
}
