/** Names that files export, read from the source, because types do not exist at run time. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const DECLARED =
  /^export (?:declare )?(?:default )?(?:abstract )?(?:async )?(function\*?|class|const|let|var|interface|type) +([\w$]+)/gm;
const LISTED = /^export (type )?\{([^}]*)\}/gm;
const STARRED = /^export (type )?\*(?: as ([\w$]+))? from "(\.[^"]+)"/gm;

/** The names that the text of a file declares and exports: `name` for a value, `type name` for a type. */
export function declaredNames(text: string): string[] {
  const names = new Set<string>();
  for (const [, kind = "", name] of withoutBlockComments(text).matchAll(DECLARED)) {
    names.add(kind === "interface" || kind === "type" ? `type ${name}` : `${name}`);
  }
  return [...names];
}

/** The names that a file exports, including all names of files that it re-exports with `export *`. */
export function exportedNames(file: string): string[] {
  const text = withoutBlockComments(readFileSync(file, "utf8"));
  const names = new Set<string>(declaredNames(text));
  for (const [, all_types, list = ""] of text.matchAll(LISTED)) {
    for (const part of list.split(",").map((piece) => piece.trim())) {
      if (part === "") continue;
      const is_type = all_types !== undefined || part.startsWith("type ");
      const name = part
        .replace(/^type /, "")
        .split(" as ")
        .at(-1);
      names.add(is_type ? `type ${name}` : `${name}`);
    }
  }
  for (const [, all_types, alias, from = ""] of text.matchAll(STARRED)) {
    const inner = alias === undefined ? exportedNames(join(dirname(file), from)) : [alias];
    for (const name of inner) {
      // `export type *` exports values as types, which then merge with a type of the same name.
      names.add(all_types === undefined || name.startsWith("type ") ? name : `type ${name}`);
    }
  }
  return [...names].sort();
}

function withoutBlockComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "");
}
