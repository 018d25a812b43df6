/** The import table of ARCHITECTURE.md as data, and the check of a tree against it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve, sep } from "node:path";

export interface RoomRule {
  room: string;
  /** `kernel` or `kernel/ports`: the latter allows only that entry. */
  rooms: string[];
  /** null: any builtin of Node. */
  builtins: string[] | null;
}

export function readImportTable(markdown: string): RoomRule[] {
  const rules: RoomRule[] = [];
  let inside = false;
  for (const line of markdown.split("\n")) {
    if (line.startsWith("| room |")) inside = true;
    else if (inside && !line.startsWith("|")) break;
    else if (inside && !line.startsWith("|-")) {
      const [room, rooms, builtins] = line
        .split("|")
        .slice(1, 4)
        .map((cell) => cell.trim().replaceAll("`", ""));
      const list = (cell: string) => (cell === "nothing" ? [] : cell.split(",").map((part) => part.trim()));
      rules.push({ room: room!, rooms: list(rooms!), builtins: builtins === "any" ? null : list(builtins!) });
    }
  }
  return rules;
}

/** Every import under packages/ROOM/src and plugins/NAME/src that the table does not allow, as `file: reason`. */
export function forbiddenImports(root: string, rules: RoomRule[]): string[] {
  const found: string[] = [];
  for (const { folder, room } of roomsOf(root)) {
    const source = resolve(root, folder, "src");
    if (!existsSync(source)) continue;
    const rule = rules.find((candidate) => candidate.room === room);
    if (rule === undefined) {
      found.push(`${folder}: not in the import table`);
      continue;
    }
    const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const declared = Object.keys(manifest.dependencies ?? {});
    for (const file of sourcesUnder(source)) {
      for (const specifier of importsOf(readFileSync(file, "utf8"))) {
        const reason = forbidden(specifier, file, source, rule, declared);
        if (reason !== null) found.push(`${relative(resolve(root), file).replaceAll(sep, "/")}: ${reason}`);
      }
    }
  }
  return found.sort();
}

/** Each package is a room of its own; the bundled plugins are one. */
function roomsOf(root: string): { folder: string; room: string }[] {
  const under = (folder: string) => (existsSync(join(root, folder)) ? readdirSync(join(root, folder)) : []);
  return [
    ...under("packages").map((room) => ({ folder: `packages/${room}`, room })),
    ...under("plugins").map((name) => ({ folder: `plugins/${name}`, room: "plugins" })),
  ];
}

function forbidden(
  specifier: string,
  file: string,
  source: string,
  rule: RoomRule,
  declared: string[],
): string | null {
  if (specifier.startsWith(".")) {
    const inside = resolve(dirname(file), specifier).startsWith(source + sep);
    return inside ? null : `${specifier} leaves the room`;
  }
  const builtin = specifier.replace(/^node:/, "");
  if (specifier.startsWith("node:") || builtinModules.includes(builtin)) {
    const allowed = rule.builtins === null || rule.builtins.includes(`node:${builtin}`);
    return allowed ? null : `${rule.room} may not use ${specifier}`;
  }
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  if (name.startsWith("@backplane/")) {
    const entry = specifier.slice("@backplane/".length);
    const other = name.slice("@backplane/".length);
    // A room may be named from inside as others name it.
    if (other === rule.room) return null;
    // `kernel` allows every entry of the room, `kernel/ports` that one alone.
    const allowed = rule.rooms.some((room) => (room.includes("/") ? room === entry : room === other));
    if (!allowed) return `${rule.room} may not import ${specifier}`;
  }
  return declared.includes(name) ? null : `${name} is no dependency of ${rule.room}`;
}

function sourcesUnder(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|tsx|mts|cts)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

function importsOf(text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\b[^;"'`]*?from\s*["']([^"']+)["']|(?:^|\n)\s*import\s*["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']|\brequire\(\s*["']([^"']+)["']/g;
  return [...text.matchAll(pattern)].map((match) => (match[1] ?? match[2] ?? match[3] ?? match[4])!);
}
