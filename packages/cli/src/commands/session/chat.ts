/**
 * `session chat`: a conversation at the terminal, or for a script one message after the other. Exit code of a script:
 * 0 answered, 1 the turn failed, 3 an approval was refused or nobody could be asked, 130 interrupted.
 */
import { BackplaneError, codeOf, type Session } from "@backplane/contract";
import type { Command } from "commander";
import { sayInTurn } from "../../chat/scripted-chat.ts";
import { chatAtTerminal } from "../../chat/terminal-chat.ts";
import { collect, wholeNumber } from "../../command-line/parse-flags.ts";
import { inWorkspace, type Where, whereOf } from "../../command-line/workspace-flag.ts";
import type { Act } from "../../context/action.ts";
import type { Context } from "../../context/context.ts";
import { canAsk } from "../../terminal/prompts.ts";
import { readStdin } from "../../terminal/read-input.ts";

interface ChatOptions extends Where {
  new?: boolean;
  continue?: boolean;
  message?: string[];
  timeout?: number;
}

/** Runs of sub-agents may stand before it. */
const LOOKED_AT = 100;

const HELP = `
At a terminal: Ctrl-C ends the running turn, twice within 2 s leaves; Ctrl-D leaves; /help lists the commands.

Examples:
  backplane session chat
  backplane session chat support-42 -m "What is open?" -m "And since when?"
  backplane session chat --continue
  git diff | backplane session chat --new --quiet
`;

export function addChatCommand(session: Command, act: Act): void {
  inWorkspace(session.command("chat [id]"))
    .description("Talk to the agent; without an ID in a new session.")
    .option("--new", "begin a new session, with this ID if one is given")
    .option("-c, --continue", "go on in the session that was last talked to")
    .option("-m, --message <text>", "say this and print the answer; may be repeated", collect)
    .option(
      "--timeout <seconds>",
      "how long a script waits for an approval (default: as long as it can be answered)",
      wholeNumber("--timeout", 0, 2_000_000),
    )
    .addHelpText("after", HELP)
    .action(act(chat));
}

async function chat(context: Context, options: ChatOptions, id: string | undefined): Promise<number> {
  const { io, flags, out } = context;
  const typed = options.message === undefined && canAsk(io, flags) && !out.json;
  const messages = typed ? [] : (options.message ?? [await pipedMessage(context)]);
  const session = await openSession(context, options, id);
  if (typed) return await chatAtTerminal(context, session, whereOf(options));
  return await sayInTurn(context, session, whereOf(options), messages, options.timeout);
}

/** A session that is named and not there is begun: whoever names one means to talk there. */
async function openSession(context: Context, options: ChatOptions, id: string | undefined): Promise<Session> {
  const { sessions } = context.client();
  if (options.continue === true) return await lastSession(context, options, id);
  if (id !== undefined && options.new !== true) {
    try {
      return await sessions.get(id, whereOf(options));
    } catch (error) {
      if (codeOf(error) !== "session.not_found") throw error;
    }
  }
  return await sessions.create({ ...whereOf(options), ...(id === undefined ? {} : { session_id: id }) });
}

/** The one whose turn began last; what sub-agents do is no talk of a person's. */
async function lastSession(context: Context, options: ChatOptions, id: string | undefined): Promise<Session> {
  if (id !== undefined || options.new === true) {
    throw new BackplaneError("cli.usage", "--continue finds the session by itself.", {
      fix: "backplane session chat --continue, without an ID and without --new",
    });
  }
  const { runs, sessions } = context.client();
  const { items } = await runs.list({ ...whereOf(options), limit: LOOKED_AT });
  const last = items.find(({ parent_run_id }) => parent_run_id === null);
  if (last === undefined) {
    throw new BackplaneError("session.not_found", "Nobody has talked here lately.", {
      fix: "backplane session list, then backplane session chat ID",
    });
  }
  return await sessions.get(last.session_id, { workspace: last.workspace });
}

async function pipedMessage({ io }: Context): Promise<string> {
  const text = io.stdin.isTTY === true ? "" : (await readStdin(io)).toString("utf8").trimEnd();
  if (text !== "") return text;
  throw new BackplaneError("cli.usage", "There is nothing to say: no -m, and stdin is empty or no pipe.", {
    fix: "backplane session chat -m TEXT",
  });
}
