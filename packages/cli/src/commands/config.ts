/**
 * `config`: the live configuration of an org. What is secret by its key goes in through stdin or a hidden prompt,
 * never as an argument, and comes out masked unless `--show` asks for it.
 */
import { BackplaneError, configPrefixOf, isSecretConfigKey, type Json } from "@backplane/contract";
import type { Command } from "commander";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { showRows } from "../context/page.ts";
import { plainText } from "../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../terminal/prompts.ts";
import { parseValue, readSecretValue } from "../terminal/read-input.ts";

export function addConfigCommands(program: Command, act: Act): void {
  const config = program.command("config").description("The live configuration: read at every use.");
  config
    .command("get <key>")
    .description("Print the value of a key; secrets are masked.")
    .option("--show", "print a secret itself (admin credential only; it is recorded)")
    .action(act(get));
  config
    .command("set <key> [value]")
    .description("Write a key. Without a value, or with -, it is read from stdin.")
    .option("--text", "take the value as text, even if it is JSON")
    .addHelpText(
      "after",
      "\nA value that is JSON is stored as JSON, anything else as text. Keys that end in api_key, token, secret or\n" +
        "password are secret: their value is always text, and never an argument.\n\nExamples:\n" +
        "  backplane config set provider prod\n  backplane config set plugin.search.limits '{\"pages\":3}'\n" +
        "  backplane config set providers.prod.api_key < key.txt\n",
    )
    .action(act(set));
  config
    .command("unset <key>")
    .description("Remove a key, or with 'a.b.*' all keys below one.")
    .action(act(unset));
  config.command("list [prefix]").description("List keys and values; secrets are masked.").action(act(list));
}

async function get(context: Context, options: { show?: boolean }, key: string): Promise<undefined> {
  const found = await context.client().config.get(key, options);
  context.out.data(found, () => textOf(found.value));
  return undefined;
}

async function set(
  context: Context,
  options: { text?: boolean },
  key: string,
  argument: string | undefined,
): Promise<undefined> {
  const secret = isSecretConfigKey(key);
  if (secret && argument !== undefined && argument !== "-") {
    throw new BackplaneError("cli.usage", `${key} is secret, and arguments can be seen by others.`, {
      fix: `Pipe the value in: backplane config set ${key} < file`,
    });
  }
  // Finding no credential after a person typed the value would waste it.
  const client = context.client();
  const text =
    argument === undefined || argument === "-"
      ? await readSecretValue(context, key, `backplane config set ${key} < file`)
      : argument;
  const value = secret || options.text === true ? text : parseValue(text);
  const written = await client.config.set(key, value);
  context.out.data(written, () => `Set ${key}`);
  noteDropped(context, written.dropped ?? []);
  return undefined;
}

/** A credential belongs to the destination that it was given for. */
function noteDropped({ out }: Context, dropped: readonly string[]): void {
  for (const key of dropped) {
    out.note(
      `Removed ${key}: it was given for the old destination. Set it again: backplane config set ${key} < file`,
    );
  }
}

async function unset(context: Context, _options: object, key: string): Promise<undefined> {
  if (configPrefixOf(key) !== null) {
    assertConfirmable(context.io, context.flags);
    await confirm(context.io, context.flags, `Remove every key below ${key.slice(0, -2)}?`);
  }
  const done = await context.client().config.unset(key);
  context.out.data(done, () => (done.removed ? `Removed ${key}` : `${key} was not set`));
  return undefined;
}

async function list(context: Context, _options: object, prefix = ""): Promise<undefined> {
  const all = Object.entries(await context.client().config.list());
  const rows = all.filter(([key]) => key.startsWith(prefix));
  const cells = rows.map(([key, value]) => [key, textOf(value)]);
  showRows(context, Object.fromEntries(rows), ["KEY", "VALUE"], cells);
  return undefined;
}

function textOf(value: Json): string {
  return typeof value === "string" ? plainText(value) : JSON.stringify(value);
}
