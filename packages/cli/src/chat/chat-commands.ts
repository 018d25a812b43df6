/** The local commands of a chat. A line that is none of them goes to the agent, whatever it begins with. */
import type { Session } from "@backplane/contract";
import type { Context } from "../context/context.ts";
import { table } from "../terminal/output.ts";

const COMMANDS = {
  help: "/help            this list",
  model: "/model [ID]      the provider instances, or use another from now on",
  fork: "/fork [ID]       go on in a child of this session",
  compact: "/compact         summarise the past",
  undo: "/undo            take the last compaction back",
  reset: "/reset           archive the tape and begin a new one",
  quit: "/quit            leave",
} as const;

export interface ChatCommand {
  name: keyof typeof COMMANDS;
  argument: string | undefined;
}

export interface ChatReply {
  text: string;
  /** The conversation goes on here. */
  session?: Session;
}

export function readChatCommand(line: string): ChatCommand | null {
  const [, name = "", argument] = /^\/([a-z]+)(?:\s+(\S+))?\s*$/.exec(line.trim()) ?? [];
  return Object.hasOwn(COMMANDS, name) ? { name: name as ChatCommand["name"], argument } : null;
}

export async function runChatCommand(
  context: Context,
  { session_id, ...where }: { session_id: string; workspace?: string },
  { name, argument }: ChatCommand,
): Promise<ChatReply> {
  const { sessions, compactions, providers } = context.client();
  switch (name) {
    case "fork": {
      const child = argument === undefined ? {} : { child_id: argument };
      const session = await sessions.branch(session_id, child, where);
      return { text: `This goes on as ${session.id}.`, session };
    }
    case "reset":
      await sessions.reset(session_id, where);
      return { text: "The tape is archived; a new one begins." };
    case "compact":
      await compactions.create({ session_id, ...where });
      return { text: "Compacted. /undo takes it back." };
    case "undo":
      await compactions.undo((await sessions.get(session_id, where)).head_chain_id);
      return { text: "The compaction is taken back." };
    case "model": {
      if (argument !== undefined) await providers.setActive(argument);
      const rows = await providers.list();
      const shown = rows.map((row) => [row.active ? "*" : "", row.id, row.plugin, modelOf(row.config)]);
      return { text: table(context.out, ["", "ID", "PLUGIN", "MODEL"], shown) };
    }
    case "help":
    case "quit":
      return { text: `${Object.values(COMMANDS).join("\n")}\nA line that ends in \\ goes on in the next.` };
  }
}

function modelOf({ model }: { model?: unknown }): string | null {
  return typeof model === "string" ? model : null;
}
