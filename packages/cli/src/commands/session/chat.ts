/**
 * `session chat`: an interactive chat, or messages that a script sends one after another. Exit code for a script:
 * 0 answered, 1 the turn failed, 3 an approval was rejected or not answered, 130 interrupted.
 */
import { BackplaneError, codeOf, type Run, type Session } from "@backplane/contract";
import type { Command } from "commander";
import { runScriptedChat } from "../../chat/scripted-chat.ts";
import { runTerminalChat } from "../../chat/terminal-chat.ts";
import { collectValues, wholeNumber } from "../../command-line/parse-flags.ts";
import { addWorkspaceFlag, type WorkspaceOptions, workspaceOf } from "../../command-line/workspace-flag.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { listAll } from "../../context/page.ts";
import { canAsk } from "../../terminal/prompts.ts";
import { readStdin } from "../../terminal/read-input.ts";

interface ChatOptions extends WorkspaceOptions {
  new?: boolean;
  continue?: boolean;
  message?: string[];
  timeout?: number;
}

const HELP = `
At a terminal: Ctrl-C ends the turn; Ctrl-C twice within 2 s or Ctrl-D leaves the chat; /help lists the commands.

Examples:
  backplane session chat
  backplane session chat support-42 -m "What is open?" -m "And since when?"
  backplane session chat --continue
  git diff | backplane session chat --new --quiet
`;

export function addChatCommand(session: Command, toAction: ToAction): void {
  addWorkspaceFlag(session.command("chat [id]"))
    .description("Chat with the agent; without an ID in a new session.")
    .option("--new", "start a new session, with ID if it is specified")
    .option("-c, --continue", "continue the most recent session")
    .option("-m, --message <text>", "send this and print the answer; repeatable", collectValues)
    .option(
      "--timeout <seconds>",
      "how long a script waits for an approval (default: until it expires)",
      wholeNumber("--timeout", 0, 2_000_000),
    )
    .addHelpText("after", HELP)
    .action(toAction(chat));
}

async function chat(context: CommandContext, options: ChatOptions, id: string | undefined): Promise<number> {
  const { io, flags, out } = context;
  const interactive = options.message === undefined && canAsk(io, flags) && !out.json;
  const messages = interactive ? [] : (options.message ?? [await readPipedMessage(context)]);
  const session = await findOrCreateSession(context, options, id);
  if (interactive) return await runTerminalChat(context, session, workspaceOf(options));
  return await runScriptedChat(context, session, workspaceOf(options), messages, options.timeout);
}

/** Creates a session with --new, without ID, or if ID does not exist. */
async function findOrCreateSession(
  context: CommandContext,
  options: ChatOptions,
  id: string | undefined,
): Promise<Session> {
  const { sessions } = context.client();
  if (options.continue === true) return await findLastSession(context, options, id);
  if (id !== undefined && options.new !== true) {
    try {
      return await sessions.get(id, workspaceOf(options));
    } catch (error) {
      if (codeOf(error) !== "session.not_found") throw error;
    }
  }
  return await sessions.create({ ...workspaceOf(options), ...(id === undefined ? {} : { session_id: id }) });
}

/** The session of the newest run that was not started by another run. */
async function findLastSession(
  context: CommandContext,
  options: ChatOptions,
  id: string | undefined,
): Promise<Session> {
  if (id !== undefined || options.new === true) {
    throw new BackplaneError("cli.usage", "--continue cannot be combined with an ID or --new.", {
      fix: "backplane session chat --continue",
    });
  }
  const { runs, sessions } = context.client();
  const isTopLevel = ({ parent_run_id }: Run) => parent_run_id === null;
  // The newest come first; a harness may have started many runs since.
  const searched = await listAll((page) => runs.list({ ...workspaceOf(options), ...page }), isTopLevel);
  const last = searched.find(isTopLevel);
  if (last === undefined) {
    throw new BackplaneError("session.not_found", "There is no recent session to continue.", {
      fix: "backplane session list, then backplane session chat ID",
    });
  }
  return await sessions.get(last.session_id, { workspace: last.workspace });
}

async function readPipedMessage({ io }: CommandContext): Promise<string> {
  const text = io.stdin.isTTY === true ? "" : (await readStdin(io)).toString("utf8").trimEnd();
  if (text !== "") return text;
  throw new BackplaneError(
    "cli.usage",
    "No message was specified: there is no -m, and stdin is empty or a terminal.",
    {
      fix: "backplane session chat -m TEXT",
    },
  );
}
