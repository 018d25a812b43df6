/** `tool`: the catalog, with token costs and the reason why a tool is not offered. */
import { type CatalogEntry, type Deferral, definedFields } from "@backplane/contract";
import type { Command } from "commander";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { fields, table } from "../terminal/output.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";

export function addToolCommands(program: Command, toAction: ToAction): void {
  const tool = program.command("tool").description("The catalog of tools.");
  tool
    .command("list")
    .description("List the tools available to you.")
    .option("--all", "include unavailable tools, with the reason and a fix")
    .option(
      "--channel <channel>",
      "as offered on this channel: api, ws, mcp or the name of an adapter plugin",
    )
    .action(toAction(list));
  tool
    .command("show <name>")
    .description("Show a tool as the model sees it, and other tools of the same name.")
    .action(toAction(show));
}

async function list(
  context: CommandContext,
  options: { all?: boolean; channel?: string },
): Promise<undefined> {
  const { out } = context;
  const all = options.all === true;
  const items = await context.client().catalog.list({ all, ...definedFields({ channel: options.channel }) });
  const heads = [
    "NAME",
    "ORIGIN",
    "PACKAGE",
    "RISK",
    "CATEGORY",
    "TOKENS",
    ...(all ? ["STATUS", "WHY"] : []),
  ];
  const rows = items.map((item) => [
    item.name,
    item.origin,
    item.package_id,
    item.risk,
    item.category,
    `${item.token_cost}${item.deferred_by === null ? "" : ` deferred (${item.deferred_by})`}`,
    ...(all ? [item.status, item.reason] : []),
  ]);
  out.data(items, () => (items.length === 0 ? "" : addFixes(table(out, heads, rows), items)));
  if (out.json) return undefined;
  if (items.length === 0) out.note("No tools are available to you. To see why: backplane tool list --all");
  else out.note(costNote(items));
  return undefined;
}

/** Puts each fix below the row of its tool. */
function addFixes(lines: string, items: readonly CatalogEntry[]): string {
  const [head = "", ...rows] = lines.split("\n");
  const row_lines = rows.flatMap((row, i) => {
    const fix = items[i]?.fix ?? null;
    return fix === null ? [row] : [row, `  fix: ${plainLine(fix)}`];
  });
  return [head, ...row_lines].join("\n");
}

/** Deferred tools cost nothing until a model finds them. */
function costNote(items: readonly CatalogEntry[]): string {
  const listed = items.filter(({ status, deferred }) => status === "offered" && !deferred);
  const tokens = listed.reduce((sum, { token_cost }) => sum + token_cost, 0);
  const deferred_count = items.filter(({ status, deferred }) => status === "offered" && deferred).length;
  const deferred_note =
    deferred_count === 0 ? "" : ` ${deferred_count} are deferred: models find them with tool_search.`;
  return `About ${tokens} tokens in every model call for ${listed.length} of these tools.${deferred_note}`;
}

const DEFERRAL_REASONS: Record<Deferral, string> = {
  author: "its author deferred it; to list it always, add it to pinned_tools",
  policy: "the policy lists it in deferred_tools",
  profile: "the tools of this key do not include it",
  budget:
    "the tools cost more than tool_token_budget of the policy; to list it always, add it to pinned_tools",
};

async function show(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const items = await context.client().catalog.get(name);
  context.out.data(items, () => items.map(describe).join("\n\n"));
  return undefined;
}

function describe(item: CatalogEntry): string {
  const { name, title, description, status, reason, origin, package_id, package_version } = item;
  const summary = fields({
    name,
    ...(title === null ? {} : { title }),
    status,
    ...(reason === null ? {} : { reason }),
    ...(item.fix === null ? {} : { fix: item.fix }),
    origin,
    package: `${package_id} ${package_version}`,
    binding: item.binding_id,
    risk: item.risk,
    effect: item.effect_class,
    category: item.category,
    approval: item.requires_approval ? "every call" : "depends on the policy",
    tokens: `about ${item.token_cost}${item.deferred_by === null ? "" : `, deferred: ${DEFERRAL_REASONS[item.deferred_by]}`}`,
  });
  const hidden = item.taken_out.map((line) => `\nhidden: ${plainLine(line)}`).join("");
  const schema = JSON.stringify(item.input_schema, null, 2);
  return `${summary}${hidden}\n\n${plainText(description)}\n\n${plainText(schema)}`;
}
