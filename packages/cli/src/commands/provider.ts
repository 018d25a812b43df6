/**
 * `provider`: model provider instances. Secret fields are read from stdin or a hidden prompt, never from an argument.
 */
import { BackplaneError, isSecretConfigKey, type JsonObject } from "@backplane/contract";
import type { Command } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import { collectValues } from "../command-line/parse-flags.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { isPrivateAddress } from "../context/private-addresses.ts";
import { table } from "../terminal/output.ts";
import { assertConfirmable, confirm } from "../terminal/prompts.ts";
import { parseValue, readSecretValue } from "../terminal/read-input.ts";

interface FieldOptions {
  label?: string;
  secretStdin?: string;
  allowPrivate?: boolean;
}

export function addProviderCommands(program: Command, toAction: ToAction): void {
  const provider = program.command("provider").description("Model provider instances.");
  provider.command("list").description("List instances; secrets are masked.").action(toAction(list));
  addFieldFlags(provider.command("add <plugin>"))
    .description("Add an instance of a provider plugin.")
    .option("--id <id>", "id of the instance")
    .option("--set <field=value>", "set a configuration field; repeatable", collectValues)
    .addHelpText(
      "after",
      "\nExample:\n  backplane provider add llm-openai --id prod --set model=gpt-5 --secret-stdin api_key < key.txt\n" +
        "\nA model server on this machine, such as Ollama:\n  backplane provider add llm-openai --id ollama --set base_url=http://localhost:11434/v1 --set model=llama3.3 --allow-private\n",
    )
    .action(toAction(add));
  addFieldFlags(provider.command("set <id> [field=value...]"))
    .description("Change fields of an instance; field= removes a field.")
    .action(toAction(set));
  provider.command("remove <id>").description("Remove an instance.").action(toAction(remove));
  provider.command("use <id>").description("Make this the active instance.").action(toAction(use));
  provider.command("test <id>").description("Send a short test request.").action(toAction(test));
}

function addFieldFlags(command: Command): Command {
  return command
    .option("--label <text>", "display name")
    .option("--secret-stdin <field>", "read this field from stdin or a hidden prompt")
    .option(
      "--allow-private",
      "allow base_url to be an address of this machine or its network (admin token only; audited)",
    );
}

async function list(context: CommandContext): Promise<undefined> {
  const { out } = context;
  const rows = await context.client().providers.list();
  out.data({ items: rows, next: null }, () =>
    table(
      out,
      ["ID", "ACTIVE", "PLUGIN", "LABEL", "CONFIG"],
      rows.map((row) => [
        row.id,
        row.active ? "yes" : "no",
        row.plugin,
        row.label,
        Object.entries(row.config)
          .map(([field, value]) => `${field}=${typeof value === "string" ? value : JSON.stringify(value)}`)
          .join(" "),
      ]),
    ),
  );
  return undefined;
}

async function add(
  context: CommandContext,
  options: FieldOptions & { id?: string; set?: string[] },
  plugin: string,
): Promise<undefined> {
  const { id, label, set: pairs = [] } = options;
  const config = await readFields(context, pairs, options);
  const created = await context.client().providers.create({
    plugin,
    ...(id === undefined ? {} : { id }),
    ...(label === undefined ? {} : { label }),
    ...(Object.keys(config).length === 0 ? {} : { config }),
  });
  context.out.data(created, () => created.id);
  notePrivateAllowed(context, config, created);
  notePrivateRefused(context, created);
  context.out.note(
    `Try it: backplane provider test ${created.id}; use it: backplane provider use ${created.id}`,
  );
  return undefined;
}

async function set(
  context: CommandContext,
  options: FieldOptions,
  id: string,
  pairs: string[] = [],
): Promise<undefined> {
  const { label } = options;
  const { allowPrivate, secretStdin } = options;
  if (pairs.length === 0 && [label, secretStdin, allowPrivate].every((flag) => flag === undefined)) {
    throw new BackplaneError("cli.usage", "No field to set was specified.", {
      fix: `backplane provider set ${id} model=NAME`,
    });
  }
  const config = await readFields(context, pairs, options);
  const { providers } = context.client();
  const previous_config = (await providers.list()).find((row) => row.id === id)?.config ?? {};
  const row = await providers.patch(id, {
    ...(label === undefined ? {} : { label }),
    ...(Object.keys(config).length === 0 ? {} : { config }),
  });
  context.out.data(row, () => `Changed ${id}`);
  for (const field of Object.keys(previous_config)) {
    if (!isSecretConfigKey(field) || field in row.config || config[field] === null) continue;
    context.out.note(
      `Removed ${field}: it belonged to the previous destination. Set it again: backplane provider set ${id} --secret-stdin ${field} < file`,
    );
  }
  notePrivateAllowed(context, config, row);
  if ("base_url" in config || "allow_private" in config) notePrivateRefused(context, row);
  return undefined;
}

async function remove(context: CommandContext, _options: object, id: string): Promise<undefined> {
  assertConfirmable(context.io, context.flags);
  await confirm(context.io, context.flags, `Remove the provider instance ${id}?`);
  await context.client().providers.remove(id);
  context.out.data({ removed: id }, () => `Removed ${id}`);
  return undefined;
}

async function use(context: CommandContext, _options: object, id: string): Promise<undefined> {
  await context.client().providers.setActive(id);
  context.out.data({ active: id }, () => `${id} is now the active instance`);
  return undefined;
}

async function test(context: CommandContext, _options: object, id: string): Promise<number> {
  const { ok, latency_ms, error } = await context.client().providers.test(id);
  const failure = error === undefined ? {} : { reason: error };
  context.out.data({ id, ok, latency_ms, ...failure }, () =>
    ok
      ? `${id} responded in ${latency_ms} ms`
      : `${id} failed after ${latency_ms} ms: ${error ?? "unknown error"}`,
  );
  return ok ? EXIT.ok : EXIT.failed;
}

async function readFields(
  context: CommandContext,
  pairs: string[],
  options: FieldOptions,
): Promise<JsonObject> {
  const config: JsonObject = {};
  for (const pair of pairs) {
    const [, field, text] = /^([a-z][a-z0-9_]*)=(.*)$/s.exec(pair) ?? [];
    if (field === undefined || text === undefined)
      throw new BackplaneError("cli.usage", `${pair.split("=")[0]} is not in the form field=value.`, {
        fix: "model=NAME",
      });
    if (isSecretConfigKey(field) && text !== "") {
      throw new BackplaneError(
        "cli.usage",
        `${field} is secret, and other users can see command arguments.`,
        {
          fix: `Pipe it in: --secret-stdin ${field} < file`,
        },
      );
    }
    config[field] = text === "" ? null : parseValue(text);
  }
  if (options.allowPrivate === true) config.allow_private = true;
  const { secretStdin: field } = options;
  if (field !== undefined) {
    const example = `--secret-stdin ${field} < file`;
    config[field] = await readSecretValue(context, field, example);
  }
  return config;
}

/** Warns that the gateway will send requests to an address that plugins and other organizations may not reach. */
function notePrivateAllowed(
  { out }: CommandContext,
  request: JsonObject,
  row: { plugin: string; config: JsonObject },
): void {
  const { allow_private: address } = row.config;
  if (request.allow_private !== true || typeof address !== "string") return;
  out.note(
    `The gateway now sends model calls to ${address}, which is not a public address. Users who can write to this\n` +
      `organization's sessions can reach the server there, and users who can change its providers can choose the path.\n` +
      `The permission covers only this organization's ${row.plugin} instances at ${address}.\n` +
      `The audit log records the change. Revoke it: backplane provider set ID allow_private=`,
  );
}

/** Warns before the first call is refused. Host names are not resolved here, only when a call is made. */
function notePrivateRefused(
  { out }: CommandContext,
  { id, config }: { id: string; config: JsonObject },
): void {
  const { base_url, allow_private } = config;
  if (allow_private !== undefined || typeof base_url !== "string" || !URL.canParse(base_url)) return;
  const host = new URL(base_url).hostname.replaceAll(/[[\]]/g, "");
  if (!isPrivateHost(host)) return;
  out.note(
    `${host} is an address of this machine or its network, and the gateway refuses model calls to it. To allow it:\n` +
      `backplane provider set ${id} --allow-private`,
  );
}

function isPrivateHost(host: string): boolean {
  if (/(?:^|\.)localhost\.?$/.test(host)) return true;
  return isPrivateAddress(host);
}
