/** `plugin init`: writes a new plugin. Prompts for values that no flag sets, if there is a terminal. */
import { resolve } from "node:path";
import type { Language, TemplateKind } from "@backplane/authoring";
import { BackplaneError } from "@backplane/contract";
import { version } from "../../command-line/version.ts";
import type { CommandContext } from "../../context/context.ts";
import { canAsk, readVisible } from "../../terminal/prompts.ts";

interface InitOptions {
  lang?: string;
  kind?: string;
  dir?: string;
}

export async function initPlugin(
  context: CommandContext,
  options: InitOptions,
  argument: string | undefined,
): Promise<undefined> {
  const { createPlugin, KINDS, LANGUAGES, parsePluginName } = await import("@backplane/authoring");
  const { io, out } = context;
  const name = argument ?? (await askName(context));
  const { name: short_name } = parsePluginName(name);
  const lang = await choose<Language>(context, "lang", LANGUAGES, options.lang);
  const kind = await choose<TemplateKind>(context, "kind", KINDS, options.kind);
  const folder_text = options.dir ?? short_name;
  const folder = resolve(io.cwd, folder_text);
  const created = createPlugin({ name, lang, kind, folder, version: version() });
  out.data({ ...created, folder, lang, kind }, () =>
    [`Created ${created.package_id} in ${folder}:`, ...created.files.map((file) => `  ${file}`)].join("\n"),
  );
  out.note(`Next: backplane plugin test ${folder_text}`);
  return undefined;
}

async function askName(context: CommandContext): Promise<string> {
  if (canAsk(context.io, context.flags)) {
    const answer = (await readVisible(context.io, "Name of the plugin, such as acme/word-count: ")).trim();
    if (answer !== "") return answer;
  }
  throw new BackplaneError("cli.usage", "The plugin needs a name.", {
    fix: "backplane plugin init NAME --lang ts --kind tool",
  });
}

/** Without a flag and without a terminal, the first value is used. */
async function choose<T extends string>(
  { io, flags }: CommandContext,
  flag: string,
  values: readonly [T, ...T[]],
  argument: string | undefined,
): Promise<T> {
  let text = argument;
  if (text === undefined && canAsk(io, flags))
    text = (await readVisible(io, `--${flag} (${values.join(", ")}) [${values[0]}]: `)).trim();
  if (text === undefined || text === "") return values[0];
  const match = values.find((value) => value === text);
  if (match !== undefined) return match;
  throw new BackplaneError("cli.usage", `--${flag} ${text} is not one of ${values.join(", ")}.`, {
    fix: `--${flag} ${values[0]}`,
  });
}
