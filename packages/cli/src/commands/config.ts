/**
 * `config`: the live configuration of an organization. Values of secret keys are read from stdin or a hidden prompt,
 * never from an argument, and are masked in the output unless `--show` is given.
 */
import { BackplaneError, configPrefixOf, isSecretConfigKey, type Json } from "@backplane/contract";
import type { Command } from "commander";
import { similarNames } from "../command-line/similar-names.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { showRows } from "../context/page.ts";
import { plainText } from "../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../terminal/prompts.ts";
import { parseValue, readSecretValue } from "../terminal/read-input.ts";

export function addConfigCommands(program: Command, toAction: ToAction): void {
  const config = program.command("config").description("Live configuration; changes apply immediately.");
  config
    .command("get <key>")
    .description("Print the value of a key; secrets are masked.")
    .option("--show", "print a secret unmasked (admin credential only; audited)")
    .action(toAction(get));
  config
    .command("set <key> [value]")
    .description("Set a key. Without a value, or with -, the value is read from stdin.")
    .option("--text", "store the value as text, even if it is JSON")
    .addHelpText(
      "after",
      "\nA value that is JSON is stored as JSON, anything else as text. Keys that end in api_key, token, secret or\n" +
        "password are secret: their value is always text and cannot be an argument.\n\nExamples:\n" +
        "  backplane config set provider prod\n  backplane config set plugin.search.limits '{\"pages\":3}'\n" +
        "  backplane config set providers.prod.api_key < key.txt\n",
    )
    .action(toAction(set));
  config
    .command("unset <key>")
    .description("Remove a key, or all keys under a prefix with 'a.b.*'.")
    .action(toAction(unset));
  config
    .command("list [prefix]")
    .description("List keys and values; secrets are masked.")
    .action(toAction(list));
}

async function get(context: CommandContext, options: { show?: boolean }, key: string): Promise<undefined> {
  const setting = await context.client().config.get(key, options);
  context.out.data(setting, () => formatValue(setting.value));
  return undefined;
}

async function set(
  context: CommandContext,
  options: { text?: boolean },
  key: string,
  argument: string | undefined,
): Promise<undefined> {
  const secret = isSecretConfigKey(key);
  if (secret && argument !== undefined && argument !== "-") {
    throw new BackplaneError("cli.usage", `${key} is secret, and other users can see command arguments.`, {
      fix: `Pipe the value in: backplane config set ${key} < file`,
    });
  }
  // Fails on a missing credential before the user types the value.
  const client = context.client();
  const text =
    argument === undefined || argument === "-"
      ? await readSecretValue(context, key, `backplane config set ${key} < file`)
      : argument;
  const value = secret || options.text === true ? text : parseValue(text);
  const written = await client.config.set(key, value);
  context.out.data(written, () => `Set ${key}`);
  noteDropped(context, written.dropped ?? []);
  noteMisspelled(context, key);
  return undefined;
}

/** The gateway removes a credential when its destination changes. */
function noteDropped({ out }: CommandContext, dropped: readonly string[]): void {
  for (const key of dropped) {
    out.note(
      `Removed ${key}: it belonged to the previous destination. Set it again: backplane config set ${key} < file`,
    );
  }
}

/** Plugins and adapters may read any key, so a key that only resembles one of the gateway's own keys is accepted. */
function noteMisspelled({ out }: CommandContext, key: string): void {
  const [name = "", ...rest] = key.split(".");
  if (GATEWAY_KEYS.includes(name)) return;
  const [similar] = similarNames(name, GATEWAY_KEYS);
  if (similar === undefined) return;
  const meant = [similar, ...rest].join(".");
  out.note(`The gateway does not read ${key}. Did you mean ${meant}? To undo: backplane config unset ${key}`);
}

/** The first segments of the keys that the gateway reads itself. */
const GATEWAY_KEYS = ["kernel", "plugin", "provider", "providers"];

async function unset(context: CommandContext, _options: object, key: string): Promise<undefined> {
  if (configPrefixOf(key) !== null) {
    assertConfirmable(context.io, context.flags);
    await confirm(context.io, context.flags, `Remove every key under ${key.slice(0, -2)}?`);
  }
  const result = await context.client().config.unset(key);
  context.out.data(result, () => (result.removed ? `Removed ${key}` : `${key} was not set`));
  return undefined;
}

async function list(context: CommandContext, _options: object, prefix = ""): Promise<undefined> {
  const all = Object.entries(await context.client().config.list());
  const rows = all.filter(([key]) => key.startsWith(prefix));
  const cells = rows.map(([key, value]) => [key, formatValue(value)]);
  showRows(context, Object.fromEntries(rows), ["KEY", "VALUE"], cells);
  return undefined;
}

function formatValue(value: Json): string {
  return typeof value === "string" ? plainText(value) : JSON.stringify(value);
}
