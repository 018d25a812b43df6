/** `key`: API keys. The token is printed once, at creation. */
import {
  BackplaneError,
  KEY_SCOPES,
  type KeyScope,
  type LlmKeyLimits,
  ROLES,
  type Role,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { parseList } from "../command-line/parse-flags.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { type PageFlags, pageFlags, showPage } from "../context/page.ts";
import { confirm } from "../terminal/prompts.ts";
import { readJsonObject } from "../terminal/read-input.ts";

interface CreateOptions {
  scope: string[];
  role?: Role;
  expires?: string;
  tools?: string[];
  llm?: string;
}

export function addKeyCommands(program: Command, toAction: ToAction): void {
  const key = program.command("key").description("API keys for programs.");
  key
    .command("create <name>")
    .description("Create a key and print its token, once.")
    .requiredOption("--scope <scopes>", `permissions: ${KEY_SCOPES.join(", ")}`, parseList)
    .addOption(new Option("--role <role>", "role of the key").choices(ROLES))
    .option("--expires <when>", "expiry as a time (2030-01-31T00:00:00Z) or a duration (90d, 12h)")
    .option(
      "--tools <patterns>",
      "tools that are listed for the key, or @PROFILE; the others are found by search",
      parseList,
    )
    .option(
      "--llm <limits>",
      "limits at the model endpoints as JSON: models, requests_per_minute, requests_per_day, tokens_per_day, tokens_per_month",
    )
    .addHelpText(
      "after",
      "\nWith --project the key is limited to that project.\n\nExample:\n  backplane key create ci --scope exports:read,invocations:write --expires 90d\n",
    )
    .action(toAction(create));
  pageFlags(key.command("list").description("List keys of all projects, or of one with --project.")).action(
    toAction(list),
  );
  key
    .command("revoke <id>")
    .description("Revoke a key of any project, immediately.")
    .action(toAction(revoke));
}

async function create(context: CommandContext, options: CreateOptions, name: string): Promise<undefined> {
  const { flags, out } = context;
  const created = await context.client().keys.create({
    name,
    scopes: options.scope.map(asScope),
    role: options.role ?? "user",
    ...(flags.org === undefined ? {} : { org_id: flags.org }),
    ...(flags.project === undefined ? {} : { project_id: flags.project }),
    ...(options.tools === undefined ? {} : { tools: options.tools }),
    ...(options.llm === undefined
      ? {}
      : { llm: (await readJsonObject(context.io, "--llm", options.llm)) as LlmKeyLimits }),
    ...(options.expires === undefined ? {} : { expires_at: expiry(options.expires, Date.now()) }),
  });
  out.data(created, () => created.token ?? "");
  if (!out.json) out.note(`Key ${created.key.id}. The token above is shown only once; store it safely.`);
  return undefined;
}

async function list(context: CommandContext, options: PageFlags): Promise<undefined> {
  const { project = "*" } = context.flags;
  const page = await context.client().keys.list({ ...options, project });
  showPage(
    context,
    page,
    ["ID", "NAME", "TOKEN", "ROLE", "SCOPES", "PROJECT", "EXPIRES", "REVOKED"],
    (item) => [
      item.id,
      item.name,
      `${item.prefix}…`,
      item.role,
      item.scopes.join(","),
      item.project_id,
      item.expires_at,
      item.revoked_at,
    ],
  );
  return undefined;
}

async function revoke(context: CommandContext, _options: object, id: string): Promise<undefined> {
  await confirm(
    context.io,
    context.flags,
    `Revoke the key ${id}? Programs that use it stop working immediately.`,
  );
  const { project = "*" } = context.flags;
  await context.client().keys.revoke(id, { project });
  context.out.data({ revoked: id }, () => `Revoked ${id}`);
  return undefined;
}

function asScope(text: string): KeyScope {
  const scope = KEY_SCOPES.find((known) => known === text);
  if (scope !== undefined) return scope;
  throw new BackplaneError("cli.usage", `${text} is not a scope.`, {
    fix: `Available scopes: ${KEY_SCOPES.join(", ")}`,
  });
}

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export function expiry(text: string, now: number): string {
  const duration = /^(\d{1,5})([mhd])$/.exec(text);
  if (duration !== null) return new Date(now + Number(duration[1]) * UNIT_MS[duration[2]!]!).toISOString();
  const time = /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time) && time > now) return new Date(time).toISOString();
  throw new BackplaneError("cli.usage", `--expires ${text} is not a time in the future.`, {
    fix: "--expires 90d, or --expires 2030-01-31T00:00:00Z",
  });
}
