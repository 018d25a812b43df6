/** `session`: conversations, their tapes and what can be done with them. */
import { BackplaneError, type JsonObject, type Session } from "@backplane/contract";
import type { Command } from "commander";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { inWorkspace, type Where, whereOf } from "../../command-line/workspace-flag.ts";
import type { Act } from "../../context/action.ts";
import type { Context } from "../../context/context.ts";
import { type PageOptions, pageFlags, showPage } from "../../context/page.ts";
import { plainText } from "../../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";
import { parseValue } from "../../terminal/read-input.ts";
import { addChatCommand } from "./chat.ts";
import { addTapeCommands } from "./tape.ts";

export function addSessionCommands(program: Command, act: Act): void {
  const session = program.command("session").description("Conversations and their tapes.");
  pageFlags(inWorkspace(session.command("list").description("List sessions, newest first."))).action(
    act(list),
  );
  addTapeCommands(session, act);
  addChatCommand(session, act);
  inWorkspace(session.command("fork <id>"))
    .description("A child session that reads this one's past and writes its own.")
    .option("--at <entry>", "the last entry it takes over", wholeNumber("--at", 0, Number.MAX_SAFE_INTEGER))
    .option("--id <child>", "how to call the child")
    .action(act(fork));
  inWorkspace(session.command("set <id> <key=value...>"))
    .description("Change what is noted of a session; key= alone removes it. title and strategy are known.")
    .addHelpText(
      "after",
      "\nExample:\n  backplane session set support-42 title='Order 4711' strategy=react\n",
    )
    .action(act(set));
  inWorkspace(session.command("reset <id>"))
    .description("Archive the tape and begin a new one.")
    .action(act(reset));
  inWorkspace(session.command("compact <id>"))
    .description("Summarise the past onto a new chain; what it replaces is kept.")
    .action(act(compact));
  inWorkspace(session.command("undo <id>")).description("Take the last compaction back.").action(act(undo));
  inWorkspace(session.command("interrupt <id>")).description("End the running turn.").action(act(interrupt));
}

async function list(context: Context, options: PageOptions & Where): Promise<undefined> {
  const page = await context.client().sessions.list(options);
  showPage(context, page, ["ID", "TITLE", "WORKSPACE", "ENTRIES", "FROM", "CREATED"], (item: Session) => [
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
  context: Context,
  options: Where & { at?: number; id?: string },
  id: string,
): Promise<undefined> {
  const child = await context.client().sessions.branch(
    id,
    {
      ...(options.at === undefined ? {} : { at: options.at }),
      ...(options.id === undefined ? {} : { child_id: options.id }),
    },
    whereOf(options),
  );
  context.out.data(child, () => child.id);
  context.out.note(`Go on there with: backplane session chat ${child.id}`);
  return undefined;
}

async function set(context: Context, options: Where, id: string, pairs: string[]): Promise<undefined> {
  const changes: JsonObject = {};
  for (const pair of pairs) {
    const [, key, text] = /^([^=\s]{1,128})=(.*)$/s.exec(pair) ?? [];
    if (key === undefined || text === undefined) {
      throw new BackplaneError("cli.usage", `${pair} is no key=value.`, { fix: "title='Order 4711'" });
    }
    changes[key] = text === "" ? null : parseValue(text);
  }
  const session = await context.client().sessions.patch(id, changes, whereOf(options));
  context.out.data(session, () => `Changed ${id}`);
  return undefined;
}

async function reset(context: Context, options: Where, id: string): Promise<undefined> {
  assertConfirmable(context.io, context.flags);
  await confirm(context.io, context.flags, `Archive the tape of ${id} and begin a new one?`);
  const session = await context.client().sessions.reset(id, whereOf(options));
  context.out.data(session, () => `Reset ${id}: it goes on with chain ${session.head_chain_id}`);
  return undefined;
}

async function compact(context: Context, options: Where, id: string): Promise<undefined> {
  const made = await context.client().compactions.create({ session_id: id, ...whereOf(options) });
  context.out.data(
    made,
    () => `Compacted ${id} onto chain ${made.chain.id}: ${made.tokens_before} → ${made.tokens_after} tokens`,
  );
  context.out.note(`Take it back with: backplane session undo ${id}`);
  return undefined;
}

async function undo(context: Context, options: Where, id: string): Promise<undefined> {
  const { sessions, compactions, chains } = context.client();
  const { head_chain_id } = await sessions.get(id, whereOf(options));
  if ((await chains.get(head_chain_id)).origin !== "compaction") {
    throw new BackplaneError("request.invalid", `${id} has not been compacted, so nothing can be undone.`, {
      fix: `backplane session show ${id}`,
    });
  }
  const chain = await compactions.undo(head_chain_id);
  context.out.data(chain, () => `${id} is back on chain ${chain.id}`);
  return undefined;
}

async function interrupt(context: Context, options: Where, id: string): Promise<undefined> {
  const interrupted = await context.client().sessions.interrupt(id, whereOf(options));
  context.out.data({ interrupted }, () =>
    interrupted ? `Interrupted the turn of ${id}` : `No turn of ${id} was running`,
  );
  return undefined;
}
