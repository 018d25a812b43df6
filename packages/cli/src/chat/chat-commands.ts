/** Local commands of a chat. Any other line, even one that starts with a slash, goes to the agent. */
import { BackplaneError, type Session } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { table } from "../terminal/output.ts";
import { pinTable } from "./pin-table.ts";

const ENTRIES_PAGE = 200;

const COMMANDS = {
  help: "/help            this list",
  model: "/model [ID]      list provider instances, or switch to ID",
  fork: "/fork [ID]       continue in a fork of this session, with ID as its id",
  compact: "/compact         summarize the conversation so far",
  undo: "/undo            undo the last compaction",
  pin: "/pin [ENTRY]     keep an entry, or your last message, in every compaction",
  unpin: "/unpin ENTRY     stop keeping an entry",
  pins: "/pins            list the pinned entries",
  reset: "/reset           archive the tape and start a new one",
  quit: "/quit            leave",
} as const;

export interface ChatCommand {
  name: keyof typeof COMMANDS;
  argument: string | undefined;
}

export interface ChatReply {
  text: string;
  /** The session in which the chat continues. */
  session?: Session;
}

export function readChatCommand(line: string): ChatCommand | null {
  const [, name = "", argument] = /^\/([a-z]+)(?:\s+(\S+))?\s*$/.exec(line.trim()) ?? [];
  return Object.hasOwn(COMMANDS, name) ? { name: name as ChatCommand["name"], argument } : null;
}

export async function runChatCommand(
  context: CommandContext,
  { session_id, ...workspace_options }: { session_id: string; workspace?: string },
  { name, argument }: ChatCommand,
): Promise<ChatReply> {
  const { sessions, compactions, providers } = context.client();
  switch (name) {
    case "fork": {
      const child = argument === undefined ? {} : { child_id: argument };
      const session = await sessions.branch(session_id, child, workspace_options);
      return { text: `Continuing in session ${session.id}.`, session };
    }
    case "reset":
      await sessions.reset(session_id, workspace_options);
      return { text: "The tape was archived and a new one started." };
    case "compact":
      await compactions.create({ session_id, ...workspace_options });
      return { text: "Compacted. Use /undo to revert it." };
    case "undo":
      await compactions.undo((await sessions.get(session_id, workspace_options)).head_chain_id);
      return { text: "The compaction was undone." };
    case "pin": {
      const entry_id =
        argument === undefined
          ? await findLastUserMessage(context, session_id, workspace_options)
          : parseEntryId(argument);
      const pin = await sessions.pin(session_id, entry_id, workspace_options);
      return { text: `Pinned entry ${pin.entry_id}. Use /unpin ${pin.entry_id} to revert it.` };
    }
    case "unpin": {
      const entry_id = parseEntryId(argument ?? "");
      await sessions.unpin(session_id, entry_id, workspace_options);
      return { text: `Entry ${entry_id} is now unpinned.` };
    }
    case "pins":
      return { text: pinTable(context, await sessions.pins(session_id, workspace_options)) };
    case "model": {
      if (argument !== undefined) await providers.setActive(argument);
      const rows = await providers.list();
      const cells = rows.map((row) => [row.active ? "*" : "", row.id, row.plugin, modelOf(row.config)]);
      return { text: table(context.out, ["", "ID", "PLUGIN", "MODEL"], cells) };
    }
    case "help":
    case "quit":
      return {
        text: `${Object.values(COMMANDS).join("\n")}\nEnd a line with \\ to continue on the next line.`,
      };
  }
}

/** The tape is read from its end, one page at a time. */
async function findLastUserMessage(
  context: CommandContext,
  session_id: string,
  workspace_options: { workspace?: string },
): Promise<number> {
  const { sessions } = context.client();
  const { last_entry_id } = await sessions.get(session_id, workspace_options);
  for (let end = last_entry_id; end > 0; end -= ENTRIES_PAGE) {
    const after = Math.max(0, end - ENTRIES_PAGE);
    const { items } = await sessions.entries(session_id, {
      ...workspace_options,
      after,
      limit: ENTRIES_PAGE,
    });
    const message = items.findLast(({ kind, payload }) => kind === "message" && payload.role === "user");
    if (message !== undefined) return message.id;
  }
  throw new BackplaneError("request.invalid", "There is no message to pin yet.");
}

function parseEntryId(argument: string): number {
  if (/^[1-9]\d{0,14}$/.test(argument)) return Number(argument);
  throw new BackplaneError("cli.usage", "Specify an entry by its number.", {
    fix: "/pins lists the pinned entries, and `backplane session show ID --entries` lists all.",
  });
}

function modelOf({ model }: { model?: unknown }): string | null {
  return typeof model === "string" ? model : null;
}
