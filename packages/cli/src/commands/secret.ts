/** `secret`: values are read from stdin or a hidden prompt, never from an argument, and cannot be read back. */
import type { Secret } from "@backplane/contract";
import type { Command } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../context/page.ts";
import { fields } from "../terminal/output.ts";
import { confirm } from "../terminal/prompts.ts";
import { readSecretValue } from "../terminal/read-input.ts";

export function addSecretCommands(program: Command, toAction: ToAction): void {
  const secret = program
    .command("secret")
    .description("Secret values for bindings; they cannot be read back.");
  secret
    .command("set <name>")
    .description("Store a value from stdin, or from a hidden prompt on a terminal.")
    .addHelpText(
      "after",
      "\nExamples:\n  backplane secret set jira_dev < token.txt\n  printenv JIRA_TOKEN | backplane secret set jira_dev\n",
    )
    .action(toAction(set));
  addPageFlags(
    secret.command("list").description("List secrets: name, last characters, number of uses."),
  ).action(toAction(list));
  secret.command("show <name>").description("Show a secret without its value.").action(toAction(show));
  secret
    .command("rotate-key")
    .description("Encrypt every secret with a new master key; old keys can then be deleted.")
    .option(
      "--reseal-only",
      "use the newest key in secret.key instead of a new one (after an interruption, or for your own key)",
    )
    .action(toAction(rotateKey));
  secret.command("remove <name>").description("Delete a secret.").action(toAction(remove));
}

async function set(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const { out } = context;
  // Fails on a missing credential before the user types the value.
  const client = context.client();
  const value = await readSecretValue(context, name, `backplane secret set ${name} < file`);
  const stored = await client.secrets.put(name, value);
  out.data(stored, () => describe(stored));
  out.note(`Use it in a binding: backplane binding set ID --secret SLOT=${stored.name}`);
  return undefined;
}

async function list(context: CommandContext, options: PageFlags): Promise<undefined> {
  const page = await context.client().secrets.list(options);
  showPage(context, page, ["NAME", "LAST4", "VERSION", "USED BY", "UPDATED"], (item) => [
    item.name,
    item.last4,
    item.version,
    item.used_by.length,
    item.updated_at,
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const secret = await context.client().secrets.get(name);
  context.out.data(secret, () => describe(secret));
  return undefined;
}

async function remove(context: CommandContext, _options: object, name: string): Promise<undefined> {
  await confirm(context.io, context.flags, `Delete the secret ${name}?`);
  await context.client().secrets.remove(name);
  context.out.data({ removed: name }, () => `Removed ${name}`);
  return undefined;
}

async function rotateKey(context: CommandContext, options: { resealOnly?: boolean }): Promise<number> {
  const { out } = context;
  const result = await context.client().secrets.rotateKey({ new_key: options.resealOnly !== true });
  const { key_id, secrets, config_values, sign_ins, unreadable, unused_keys } = result;
  const lost = unreadable.map(({ kind, org_id, name }) => `${kind} ${org_id}/${name}`);
  out.data(result, () => fields({ key_id, secrets, config_values, sign_ins, unreadable: lost, unused_keys }));
  if (unused_keys.length > 0)
    out.note(
      `No secret uses ${unused_keys.join(", ")} any longer. Back up secret.key, then delete these lines.`,
    );
  if (lost.length > 0) out.note("Restore the key of the unreadable values, or store the values again.");
  return lost.length > 0 ? EXIT.failed : EXIT.ok;
}

function describe(secret: Secret): string {
  const { name, ref, last4, version, used_by, created_at, updated_at } = secret;
  return fields({ name, ref, last4, version, used_by, created_at, updated_at });
}
