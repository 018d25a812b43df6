/** `key`: API keys, whose token is printed once, and keys that sign packages. */
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
import { addPageFlags, type PageFlags, showRows } from "../context/page.ts";
import type { Cell } from "../terminal/output.ts";
import { confirm } from "../terminal/prompts.ts";
import { readJsonObject } from "../terminal/read-input.ts";
import {
  generateKey,
  isSigningKey,
  listSigningKeys,
  revokeSigningKey,
  signingKeyCells,
  trustKey,
} from "./signing-key.ts";

interface CreateOptions {
  scope: string[];
  role?: Role;
  expires?: string;
  tools?: string[];
  llm?: string;
}

export function addKeyCommands(program: Command, toAction: ToAction): void {
  const key = program.command("key").description("API keys for programs, and keys that sign packages.");
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
      "\nWith --project the key is limited to that project.\n\nExample:\n  backplane key create ci --scope exports:read,invocations:read,invocations:write --expires 90d\n",
    )
    .action(toAction(create));
  key
    .command("generate")
    .description("Create a key pair for `plugin sign`, on this machine.")
    .option(
      "-o, --out <file>",
      "file for the private key; the public key file gets the suffix .pub (default: signing.key)",
    )
    .action(toAction(generateKey));
  key
    .command("trust <file>")
    .description(
      "Trust the public key of a publisher, or change a trusted key; settings that are not specified are kept.",
    )
    .requiredOption("--name <name>", "name of the publisher")
    .option(
      "--packages <patterns>",
      "packages that the key may sign: PUBLISHER/*, PUBLISHER/NAME (default for a new key: *)",
      parseList,
    )
    .option("--not-before <time>", "time from which the key is valid, or none")
    .option("--not-after <time>", "time until which the key is valid, or none")
    .action(toAction(trustKey));
  addPageFlags(
    key
      .command("list")
      .description("List signing keys, and API keys of all projects or of one with --project.")
      .addOption(new Option("--kind <kind>", "only these keys").choices(["api", "signing"])),
  ).action(toAction(list));
  key
    .command("revoke <id>")
    .description("Revoke an API key of any project, or a signing key, immediately.")
    .option("--reason <text>", "why a signing key is revoked; shown when a package is refused")
    .action(toAction(revoke));
}

async function create(context: CommandContext, options: CreateOptions, name: string): Promise<undefined> {
  const { flags, out } = context;
  const created = await context.client().keys.create({
    name,
    scopes: options.scope.map(parseScope),
    role: options.role ?? "user",
    ...(flags.org === undefined ? {} : { org_id: flags.org }),
    ...(flags.project === undefined ? {} : { project_id: flags.project }),
    ...(options.tools === undefined ? {} : { tools: options.tools }),
    ...(options.llm === undefined
      ? {}
      : { llm: (await readJsonObject(context.io, "--llm", options.llm)) as LlmKeyLimits }),
    ...(options.expires === undefined ? {} : { expires_at: parseExpiry(options.expires, Date.now()) }),
  });
  out.data(created, () => created.token ?? "");
  if (!out.json) out.note(`Key ${created.key.id}. The token above is shown only once; store it safely.`);
  return undefined;
}

type ListOptions = PageFlags & { kind?: "api" | "signing" };

async function list(context: CommandContext, { kind, ...options }: ListOptions): Promise<undefined> {
  const { project = "*" } = context.flags;
  // Signing keys are few and not paged, so they precede the first page.
  const signing = kind === "api" || options.after !== undefined ? [] : await listSigningKeys(context);
  const page =
    kind === "signing"
      ? { items: [], next: null }
      : await context.client().keys.list({ ...options, project });
  const rows = [
    ...signing.map(signingKeyCells),
    ...page.items.map((item): Cell[] => [
      "api",
      item.id,
      item.name,
      `${item.prefix}…`,
      item.role,
      item.scopes.join(","),
      item.project_id,
      item.expires_at,
      item.revoked_at,
    ]),
  ];
  const heads = ["KIND", "ID", "NAME", "TOKEN", "ROLE", "SCOPES", "PROJECT", "EXPIRES", "REVOKED"];
  showRows(context, { items: page.items, next: page.next, signing }, heads, rows, page.next);
  return undefined;
}

async function revoke(context: CommandContext, options: { reason?: string }, id: string): Promise<undefined> {
  if (isSigningKey(id)) return await revokeSigningKey(context, id, options.reason);
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

function parseScope(text: string): KeyScope {
  const scope = KEY_SCOPES.find((known) => known === text);
  if (scope !== undefined) return scope;
  throw new BackplaneError("cli.usage", `${text} is not a scope.`, {
    fix: `Available scopes: ${KEY_SCOPES.join(", ")}`,
  });
}

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export function parseExpiry(text: string, now: number): string {
  const duration = /^(\d{1,5})([mhd])$/.exec(text);
  const time =
    duration !== null
      ? now + Number(duration[1]) * UNIT_MS[duration[2]!]!
      : /^\d{4}-\d{2}-\d{2}T/.test(text)
        ? Date.parse(text)
        : Number.NaN;
  if (time > now) return new Date(time).toISOString();
  const reason = Number.isNaN(time) ? "neither a duration nor a time" : "not in the future";
  throw new BackplaneError("cli.usage", `--expires ${text} is ${reason}.`, {
    fix: "--expires 90d, or --expires 2030-01-31T00:00:00Z",
  });
}
