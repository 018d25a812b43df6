/** `session compactions|loss|pins|pin|unpin`: the entries that compactions dropped, and those that they must keep. */
import { BackplaneError, type CompactedEntry, type Compaction } from "@backplane/contract";
import type { Command } from "commander";
import { pinTable } from "../../chat/pin-table.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { addWorkspaceFlag, type WorkspaceOptions, workspaceOf } from "../../command-line/workspace-flag.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../../context/page.ts";
import { fields, table } from "../../terminal/output.ts";

const PAGE_SIZE = 1_000;

export function addCompactionCommands(session: Command, toAction: ToAction): void {
  addPageFlags(addWorkspaceFlag(session.command("compactions <id>")))
    .description("List the compactions of a session, newest first.")
    .action(toAction(list));
  addWorkspaceFlag(session.command("loss <id>"))
    .description("Show what the last compaction kept, condensed and dropped, entry by entry.")
    .option("--chain <chain>", "another compaction, by the id of its chain")
    .action(toAction(loss));
  addWorkspaceFlag(session.command("pins <id>"))
    .description("List the entries that every compaction keeps.")
    .action(toAction(pins));
  const entry = wholeNumber("<entry>", 1, Number.MAX_SAFE_INTEGER);
  addWorkspaceFlag(session.command("pin <id>").argument("<entry>", "the number of the entry", entry))
    .description("Keep an entry unchanged in every compaction.")
    .action(toAction(pin));
  addWorkspaceFlag(session.command("unpin <id>").argument("<entry>", "the number of the entry", entry))
    .description("Stop keeping an entry.")
    .action(toAction(unpin));
}

async function list(
  context: CommandContext,
  options: PageFlags & WorkspaceOptions,
  id: string,
): Promise<undefined> {
  const page = await context.client().compactions.list({ session_id: id, ...options });
  showPage(
    context,
    page,
    ["CHAIN", "COMPACTOR", "BEFORE", "AFTER", "DROPPED", "CREATED"],
    (item: Compaction) => [
      item.chain.id,
      item.compactor?.export_id ?? "model",
      item.tokens_before,
      item.tokens_after,
      item.loss?.dropped ?? null,
      item.chain.created_at,
    ],
  );
  return undefined;
}

async function loss(
  context: CommandContext,
  options: WorkspaceOptions & { chain?: string },
  id: string,
): Promise<undefined> {
  const { compactions } = context.client();
  const chain_id = options.chain ?? (await findLastCompaction(context, options, id));
  const compaction = await compactions.get(chain_id);
  const entries: CompactedEntry[] = [];
  for (let after = 0; ; after = entries.at(-1)!.entry_id) {
    const { items, next } = await compactions.entries(chain_id, { after, limit: PAGE_SIZE });
    entries.push(...items);
    if (next === null) break;
  }
  context.out.data({ ...compaction, entries }, () => {
    const { tokens_before, tokens_after, compactor, loss: total } = compaction;
    const head = fields({
      compaction: chain_id,
      compactor: compactor?.export_id ?? "model",
      tokens: `${tokens_before} → ${tokens_after}`,
      kept: total?.kept,
      condensed: total?.condensed,
      dropped: total === null ? undefined : `${total.dropped} (${total.dropped_tokens} tokens)`,
    });
    const rows = entries.map((entry) => [
      entry.entry_id,
      entry.kind,
      entry.outcome,
      entry.tokens_before,
      entry.tokens_after,
    ]);
    return `${head}\n${table(context.out, ["ENTRY", "KIND", "OUTCOME", "BEFORE", "AFTER"], rows)}`;
  });
  return undefined;
}

async function findLastCompaction(
  context: CommandContext,
  options: WorkspaceOptions,
  id: string,
): Promise<string> {
  const query = { session_id: id, ...workspaceOf(options) };
  const { compactions } = context.client();
  const [newest] = (await compactions.list({ ...query, limit: 1 })).items;
  if (newest !== undefined) return newest.chain.id;
  throw new BackplaneError("request.invalid", `${id} has not been compacted.`);
}

async function pins(context: CommandContext, options: WorkspaceOptions, id: string): Promise<undefined> {
  const items = await context.client().sessions.pins(id, workspaceOf(options));
  context.out.data({ items }, () => pinTable(context, items));
  return undefined;
}

async function pin(
  context: CommandContext,
  options: WorkspaceOptions,
  id: string,
  entry: number,
): Promise<undefined> {
  const pinned = await context.client().sessions.pin(id, entry, workspaceOf(options));
  context.out.data(pinned, () => `Pinned entry ${pinned.entry_id} of ${id}`);
  return undefined;
}

async function unpin(
  context: CommandContext,
  options: WorkspaceOptions,
  id: string,
  entry: number,
): Promise<undefined> {
  await context.client().sessions.unpin(id, entry, workspaceOf(options));
  context.out.data({ entry_id: entry, pinned: false }, () => `Entry ${entry} of ${id} is now unpinned`);
  return undefined;
}
