/** `secret`: values go in through stdin or a hidden prompt, never as an argument, and never come out again. */
import type { Secret } from "@backplane/contract";
import type { Command } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { type PageOptions, pageFlags, showPage } from "../context/page.ts";
import { fields } from "../terminal/output.ts";
import { confirm } from "../terminal/prompts.ts";
import { readSecretValue } from "../terminal/read-input.ts";

export function addSecretCommands(program: Command, act: Act): void {
  const secret = program.command("secret").description("Values that bindings use and nobody can read back.");
  secret
    .command("set <name>")
    .description("Store a value from stdin; on a terminal it is asked for and not shown.")
    .addHelpText(
      "after",
      "\nExamples:\n  backplane secret set jira_dev < token.txt\n  printenv JIRA_TOKEN | backplane secret set jira_dev\n",
    )
    .action(act(set));
  pageFlags(secret.command("list").description("List secrets: names, last characters, use.")).action(
    act(list),
  );
  secret
    .command("show <name>")
    .description("Show what is known of a secret, not its value.")
    .action(act(show));
  secret
    .command("rotate-key")
    .description("Seal every secret again under a new master key; old keys can then be dropped.")
    .option("--reseal-only", "make no key: use the newest in secret.key (after an interruption, or your own)")
    .action(act(rotateKey));
  secret.command("remove <name>").description("Forget a secret.").action(act(remove));
}

async function set(context: Context, _options: object, name: string): Promise<undefined> {
  const { out } = context;
  // Finding no credential after a person typed the value would waste it.
  const client = context.client();
  const value = await readSecretValue(context, name, `backplane secret set ${name} < file`);
  const stored = await client.secrets.put(name, value);
  out.data(stored, () => describe(stored));
  out.note(`Use it in a binding: backplane binding set ID --secret SLOT=${stored.name}`);
  return undefined;
}

async function list(context: Context, options: PageOptions): Promise<undefined> {
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

async function show(context: Context, _options: object, name: string): Promise<undefined> {
  const found = await context.client().secrets.get(name);
  context.out.data(found, () => describe(found));
  return undefined;
}

async function remove(context: Context, _options: object, name: string): Promise<undefined> {
  await confirm(context.io, context.flags, `Forget the secret ${name}?`);
  await context.client().secrets.remove(name);
  context.out.data({ removed: name }, () => `Removed ${name}`);
  return undefined;
}

async function rotateKey(context: Context, options: { resealOnly?: boolean }): Promise<number> {
  const { out } = context;
  const done = await context.client().secrets.rotateKey({ new_key: options.resealOnly !== true });
  const { key_id, secrets, config_values, sign_ins, unreadable, unused_keys } = done;
  const lost = unreadable.map(({ kind, org_id, name }) => `${kind} ${org_id}/${name}`);
  out.data(done, () => fields({ key_id, secrets, config_values, sign_ins, unreadable: lost, unused_keys }));
  if (unused_keys.length > 0)
    out.note(
      `Nothing is sealed with ${unused_keys.join(", ")} any more: back up secret.key, then drop these lines.`,
    );
  if (lost.length > 0)
    out.note("What is unreadable needs the key that sealed it, or has to be stored again.");
  return lost.length > 0 ? EXIT.failed : EXIT.ok;
}

function describe(secret: Secret): string {
  const { name, ref, last4, version, used_by, created_at, updated_at } = secret;
  return fields({ name, ref, last4, version, used_by, created_at, updated_at });
}
