/** `session`: conversations and their tapes. */
import { BackplaneError, definedFields, type JsonObject, type Session } from "@backplane/contract";
import type { Command } from "commander";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { addWorkspaceFlag, type WorkspaceOptions, workspaceOf } from "../../command-line/workspace-flag.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../../context/page.ts";
import { plainText } from "../../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";
import { parseValue } from "../../terminal/read-input.ts";
import { addChatCommand } from "./chat.ts";
import { addCompactionCommands } from "./compaction.ts";
import { addTapeCommands } from "./tape.ts";

export function addSessionCommands(program: Command, toAction: ToAction): void {
  const session = program.command("session").description("Conversations and their tapes.");
  addPageFlags(addWorkspaceFlag(session.command("list").description("List sessions, newest first."))).action(
    toAction(list),
  );
  addTapeCommands(session, toAction);
  addChatCommand(session, toAction);
  addCompactionCommands(session, toAction);
  addWorkspaceFlag(session.command("fork <id>"))
    .description("Create a child session that shares the history up to this point.")
    .option(
      "--at <entry>",
      "last entry of the shared history",
      wholeNumber("--at", 0, Number.MAX_SAFE_INTEGER),
    )
    .option("--id <child>", "id of the child session")
    .action(toAction(fork));
  addWorkspaceFlag(session.command("set <id> <key=value...>"))
    .description("Set metadata of a session, such as title and strategy; key= removes a key.")
    .addHelpText(
      "after",
      "\nExample:\n  backplane session set support-42 title='Order 4711' strategy=react\n",
    )
    .action(toAction(set));
  addWorkspaceFlag(session.command("reset <id>"))
    .description("Archive the tape and start a new one.")
    .option("--no-archive", "close the tape without announcing it as an archive")
    .action(toAction(reset));
  addWorkspaceFlag(session.command("handoff <id> <name> [key=value...]"))
    .description("Start a new context for the model, in which summary=TEXT replaces the earlier messages.")
    .addHelpText(
      "after",
      "\nExample:\n  backplane session handoff support-42 shipped summary='The order was shipped.'\n",
    )
    .action(toAction(handoff));
  addWorkspaceFlag(session.command("compact <id>"))
    .description("Summarize the conversation onto a new chain; the old chain is kept.")
    .option("--compactor <name>", "a compactor to use, or `model` for the built-in summary")
    .option("--context <name>", "prefer compactors made for this context, such as coding")
    .option("--tokens <n>", "the target size", wholeNumber("--tokens", 1, Number.MAX_SAFE_INTEGER))
    .action(toAction(compact));
  addWorkspaceFlag(session.command("undo <id>"))
    .description("Undo the last compaction.")
    .action(toAction(undo));
  addWorkspaceFlag(session.command("interrupt <id>"))
    .description("End the running turn.")
    .action(toAction(interrupt));
}

async function list(context: CommandContext, options: PageFlags & WorkspaceOptions): Promise<undefined> {
  const page = await context.client().sessions.list(options);
  showPage(context, page, ["ID", "TITLE", "WORKSPACE", "ENTRIES", "PARENT", "CREATED"], (item: Session) => [
    item.id,
    typeof item.metadata.title === "string" ? plainText(item.metadata.title) : null,
    item.workspace,
    item.last_entry_id,
    item.parent_session_id,
    item.created_at,
  ]);
  return undefined;
}

async function fork(
  context: CommandContext,
  options: WorkspaceOptions & { at?: number; id?: string },
  id: string,
): Promise<undefined> {
  const child = await context.client().sessions.branch(
    id,
    {
      ...(options.at === undefined ? {} : { at: options.at }),
      ...(options.id === undefined ? {} : { child_id: options.id }),
    },
    workspaceOf(options),
  );
  context.out.data(child, () => child.id);
  context.out.note(`Continue there: backplane session chat ${child.id}`);
  return undefined;
}

async function set(
  context: CommandContext,
  options: WorkspaceOptions,
  id: string,
  pairs: string[],
): Promise<undefined> {
  const changes = readPairs(pairs);
  const session = await context.client().sessions.patch(id, changes, workspaceOf(options));
  context.out.data(session, () => `Changed ${id}`);
  return undefined;
}

function readPairs(pairs: readonly string[]): JsonObject {
  const values: JsonObject = {};
  for (const pair of pairs) {
    const [, key, text] = /^([^=\s]{1,128})=(.*)$/s.exec(pair) ?? [];
    if (key === undefined || text === undefined) {
      throw new BackplaneError("cli.usage", `${pair} is not in the form key=value.`, {
        fix: "title='Order 4711'",
      });
    }
    values[key] = text === "" ? null : parseValue(text);
  }
  return values;
}

async function handoff(
  context: CommandContext,
  options: WorkspaceOptions,
  id: string,
  name: string,
  pairs: string[],
): Promise<undefined> {
  const anchor = { name, state: readPairs(pairs) };
  const entry = await context.client().sessions.handoff(id, anchor, workspaceOf(options));
  context.out.data(entry, () => `The context of ${id} begins at entry ${entry.id}`);
  return undefined;
}

async function reset(
  context: CommandContext,
  options: WorkspaceOptions & { archive: boolean },
  id: string,
): Promise<undefined> {
  const { archive } = options;
  assertConfirmable(context.io, context.flags);
  const question = archive ? `Archive the tape of ${id}` : `Close the tape of ${id} without an archive`;
  await confirm(context.io, context.flags, `${question} and start a new one?`);
  const session = await context.client().sessions.reset(id, workspaceOf(options), { archive });
  context.out.data(session, () => `Reset ${id}: it continues on chain ${session.head_chain_id}`);
  return undefined;
}

async function compact(
  context: CommandContext,
  options: WorkspaceOptions & { compactor?: string; context?: string; tokens?: number },
  id: string,
): Promise<undefined> {
  const { compactor, context: target_context, tokens } = options;
  const created = await context.client().compactions.create({
    session_id: id,
    ...workspaceOf(options),
    ...definedFields({ compactor, target_context }),
    ...(tokens === undefined ? {} : { target: { max_input_tokens: tokens } }),
  });
  context.out.data(
    created,
    () =>
      `Compacted ${id} onto chain ${created.chain.id}: ${created.tokens_before} → ${created.tokens_after} tokens`,
  );
  for (const { export_id, code } of created.failed_compactors)
    context.out.note(`The compactor ${export_id} failed: ${code}`);
  context.out.note(`What was dropped: backplane session loss ${id}`);
  context.out.note(`To undo: backplane session undo ${id}`);
  return undefined;
}

async function undo(context: CommandContext, options: WorkspaceOptions, id: string): Promise<undefined> {
  const { sessions, compactions, chains } = context.client();
  const { head_chain_id } = await sessions.get(id, workspaceOf(options));
  if ((await chains.get(head_chain_id)).origin !== "compaction") {
    throw new BackplaneError(
      "request.invalid",
      `${id} has not been compacted, so there is nothing to undo.`,
      {
        fix: `backplane session show ${id}`,
      },
    );
  }
  const chain = await compactions.undo(head_chain_id);
  context.out.data(chain, () => `${id} is back on chain ${chain.id}`);
  return undefined;
}

async function interrupt(context: CommandContext, options: WorkspaceOptions, id: string): Promise<undefined> {
  const interrupted = await context.client().sessions.interrupt(id, workspaceOf(options));
  context.out.data({ interrupted }, () =>
    interrupted ? `Interrupted the turn of ${id}` : `No turn of ${id} was running`,
  );
  return undefined;
}
