/**
 * `plugin init`: writes a plugin that works without changes. The folder `templates` has files for each language, for
 * each kind, and for all plugins. Each plugin gets its own copy of the SDK, because a package is self-contained. The
 * plugin runs without npm and pip.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";

export const LANGUAGES = ["ts", "py", "sh"] as const;
export const KINDS = ["tool", "hook", "compactor", "harness"] as const;
export type Language = (typeof LANGUAGES)[number];
export type TemplateKind = (typeof KINDS)[number];

export interface NewPlugin {
  /** `name` or `publisher/name`. */
  name: string;
  lang: Language;
  kind: TemplateKind;
  /** Created if it does not exist; must be empty. */
  folder: string;
  /** The version of Backplane, for the types of the SDK. */
  version: string;
}

export interface CreatedPlugin {
  package_id: string;
  export_id: string;
  /** Paths below the folder. */
  files: string[];
}

const NAME = /^(?:([a-z0-9][a-z0-9._-]*)\/)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)$/;
const MAX_NAME = 60;
const DEFAULT_PUBLISHER = "local";
const TEMPLATES = fileURLToPath(new URL("../../templates/", import.meta.url));

interface LanguageTemplate {
  /** The lines of the manifest that start the program. */
  runtime: string;
  /** Where the program is written. */
  program: string;
  /** The module specifier of the SDK, and where its copy is written. */
  sdk: { name: string; path: string };
  /** Further files, from template path to destination. */
  files: Record<string, string>;
  /** Lines of .vaiignore. */
  ignored: string[];
  note: string;
}

const LANGUAGE_TEMPLATES: Record<Language, LanguageTemplate> = {
  ts: {
    runtime: 'entrypoint = ["node", "./src/plugin.ts"]',
    program: "src/plugin.ts",
    sdk: { name: "@backplane/sdk/bundle", path: "lib/backplane-sdk.mjs" },
    files: {
      "ts/package.json": "package.json",
      "ts/tsconfig.json": "tsconfig.json",
      "lib/backplane-sdk.d.mts": "lib/backplane-sdk.d.mts",
    },
    ignored: ["/lib/*.d.mts", "/node_modules/", "/package-lock.json", "/tsconfig.json"],
    note: "The gateway's Node runs TypeScript directly, so there is no build step. `npm install` gives your editor the types.",
  },
  py: {
    runtime: [
      'entrypoint = ["python3", "./bin/plugin.py"]',
      "# The folder of a package never changes, so Python must not leave __pycache__ in it.",
      'env = { PYTHONDONTWRITEBYTECODE = "1" }',
    ].join("\n"),
    program: "bin/plugin.py",
    sdk: { name: "@backplane/sdk/python", path: "lib/backplane_sdk.py" },
    files: {},
    ignored: ["__pycache__/"],
    note: "The plugin needs only Python 3.9 or newer and its standard library.",
  },
  sh: {
    runtime: 'entrypoint = ["sh", "./bin/plugin.sh"]',
    program: "bin/plugin.sh",
    sdk: { name: "@backplane/sdk/shell", path: "lib/backplane_sdk.sh" },
    files: {},
    ignored: [],
    note: "A plugin in plain sh handles one call at a time and reads a cancel after the current call: keep calls short.",
  },
};

interface KindTemplate {
  description: string;
  schemas: string[];
  /** The command that calls the plugin after its installation. */
  try: string;
}

const KIND_TEMPLATES: Record<TemplateKind, KindTemplate> = {
  tool: {
    description: "Counts the words of a text",
    schemas: ["input.json", "output.json"],
    try: `backplane invoke __EXPORT_ID__ --input '{"text":"one two three"}'`,
  },
  hook: {
    description: "Writes a line for each completed run and settled invocation",
    schemas: [],
    try: "backplane hook test BINDING          # its id is in `backplane binding list`",
  },
  compactor: {
    description: "Keeps the last turns of a conversation",
    schemas: [],
    try: "backplane session compact SESSION --compactor __EXPORT_ID__",
  },
  harness: {
    description: "Works through the lines of a message",
    schemas: [],
    try: "backplane run start --session demo --harness __EXPORT_ID__ --input 'one line' --wait",
  },
};

/** Throws `cli.usage` for an invalid name or a folder that is not empty. */
export function createPlugin(plugin: NewPlugin): CreatedPlugin {
  const { publisher, name } = parsePluginName(plugin.name);
  assertEmpty(plugin.folder);
  const language = LANGUAGE_TEMPLATES[plugin.lang];
  const kind = KIND_TEMPLATES[plugin.kind];
  const package_id = `${publisher}/${name}`;
  const export_id = name.replaceAll("-", "_");
  const values: Record<string, string> = {
    RUNTIME: language.runtime,
    IGNORED: language.ignored.join("\n"),
    FILES: describeFiles(plugin, language),
    TRY: kind.try,
    NOTE: language.note,
    PACKAGE_ID: package_id,
    EXPORT_ID: export_id,
    NAME: name,
    TITLE: titleOf(name),
    DESCRIPTION: kind.description,
    KIND: plugin.kind,
    SDK_VERSION: plugin.version,
  };
  const fill = (text: string) => {
    let filled = text;
    for (const [key, value] of Object.entries(values)) filled = filled.replaceAll(`__${key}__`, value);
    return filled.replace(/\n{3,}/g, "\n\n");
  };
  const files: Record<string, string> = {
    "vai-plugin.toml": `${fill(readTemplate("common/vai-plugin.toml"))}${readTemplate(`${plugin.kind}/export.toml`)}`,
    [language.program]: fill(readTemplate(`${plugin.lang}/${plugin.kind}.${plugin.lang}`)),
    [language.sdk.path]: readSdk(language.sdk.name),
    "tests/cases.json": fill(readTemplate(`${plugin.kind}/cases.json`)),
    "README.md": `${fill(readTemplate("common/README.md")).trim()}\n`,
    ".vaiignore": fill(readTemplate("common/vaiignore")),
  };
  for (const schema of kind.schemas) files[`schemas/${schema}`] = readTemplate(`${plugin.kind}/${schema}`);
  for (const [from, to] of Object.entries(language.files)) files[to] = fill(readTemplate(from));
  writeFiles(plugin.folder, files);
  return { package_id, export_id, files: Object.keys(files).sort() };
}

export function parsePluginName(text: string): { publisher: string; name: string } {
  const match = NAME.exec(text);
  if (match === null || text.length > MAX_NAME)
    throw new BackplaneError("cli.usage", `${JSON.stringify(text)} is not a valid plugin name.`, {
      fix: "Use lower-case letters, digits and single dashes, starting with a letter: word-count, or acme/word-count.",
    });
  return { publisher: match[1] ?? DEFAULT_PUBLISHER, name: match[2]! };
}

function assertEmpty(folder: string): void {
  if (!existsSync(folder)) return;
  let entries: string[];
  try {
    entries = readdirSync(folder);
  } catch {
    throw new BackplaneError("cli.usage", `${folder} is not a folder.`, {
      fix: "Choose another name, or --dir.",
    });
  }
  if (entries.length > 0)
    throw new BackplaneError("cli.usage", `${folder} is not empty.`, {
      fix: "Choose another name, or an empty folder with --dir.",
    });
}

function writeFiles(folder: string, files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { flag: "wx" });
    if (text.startsWith("#!")) chmodSync(file, 0o755);
  }
}

function readTemplate(path: string): string {
  return readFileSync(join(TEMPLATES, path), "utf8");
}

function readSdk(name: string): string {
  return readFileSync(createRequire(import.meta.url).resolve(name), "utf8");
}

function describeFiles({ kind }: NewPlugin, { program, sdk }: LanguageTemplate): string {
  return [
    `| \`${program}\` | the program |`,
    ...(KIND_TEMPLATES[kind].schemas.length === 0
      ? []
      : ["| `schemas/` | input and output as JSON Schema |"]),
    `| \`${sdk.path}\` | a copy of the SDK, because a package is self-contained |`,
  ].join("\n");
}

function titleOf(name: string): string {
  const words = name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
