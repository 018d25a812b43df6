/**
 * Sends the messages of a script one after another. Answers go to stdout, everything else to stderr. An approval
 * request is printed with the commands that answer it.
 */
import type { Approval, Run, Session } from "@backplane/contract";
import { errorLines } from "../command-line/error-report.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { WorkspaceOptions } from "../command-line/workspace-flag.ts";
import type { CommandContext } from "../context/context.ts";
import { retryRead } from "../context/retry-read.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";
import { chatEventText } from "./chat-event-text.ts";
import type { ChatEvent } from "./chat-events.ts";
import { Conversation } from "./conversation.ts";

export async function runScriptedChat(
  context: CommandContext,
  session: Session,
  workspace_options: WorkspaceOptions,
  messages: readonly string[],
  timeout_s: number | undefined,
): Promise<number> {
  const { out, io } = context;
  const names = new Map<string, string>();
  const timers: NodeJS.Timeout[] = [];
  const ended = new AbortController();
  let unanswered_id: string | null = null;
  let interrupted = false;
  const conversation = new Conversation(
    context,
    { session_id: session.id, ...workspace_options },
    {
      onEvent: (chat_event) => note(context, chat_event, names),
      onApproval(approval) {
        for (const line of questionLines(approval)) out.note(line);
        if (timeout_s === undefined) return;
        timers.push(setTimeout(() => void giveUp(approval).catch(() => {}), timeout_s * 1_000));
      },
      onDecision: () => {},
    },
  );
  const giveUp = async ({ id }: Approval) => {
    const latest = await retryRead(() => context.client().approvals.get(id), { signal: ended.signal });
    if (latest?.status !== "pending" || unanswered_id !== null) return;
    unanswered_id = id;
    await conversation.interrupt();
  };
  const stopListening = io.onSignal(() => {
    if (interrupted) return io.exit(EXIT.interrupted);
    interrupted = true;
    conversation.interrupt().catch(() => io.exit(EXIT.interrupted));
  });
  const runs: Run[] = [];
  let exit: number = EXIT.ok;
  try {
    await conversation.open(session.last_entry_id);
    for (const message of messages) {
      const run = await out.during("Waiting for the answer", () => conversation.sendMessage(message));
      runs.push(run);
      const content = run.output?.content ?? "";
      if (!out.json && content !== "") io.stdout.write(`${plainText(content).replace(/\n?$/, "\n")}`);
      exit = interrupted ? EXIT.interrupted : await reportTurn(context, conversation, run, unanswered_id);
      if (exit !== EXIT.ok) break;
    }
  } finally {
    ended.abort();
    for (const timer of timers) clearTimeout(timer);
    stopListening();
    await conversation.close();
  }
  if (out.json) out.data({ session_id: session.id, runs, exit_code: exit }, () => "");
  else out.note(`Session: ${session.id}`);
  return exit;
}

async function reportTurn(
  context: CommandContext,
  conversation: Conversation,
  run: Run,
  unanswered_id: string | null,
): Promise<number> {
  const { stderr } = context.io;
  if (unanswered_id !== null) {
    const message = `Approval ${unanswered_id} was not answered in time; the turn was interrupted.`;
    stderr.write(`${errorLines({ code: "approval.expired", message })}\n`);
    return EXIT.denied;
  }
  const refused = await conversation.hasRejection();
  if (run.status !== "completed" && run.error !== null) {
    stderr.write(`${errorLines({ ...run.error, message: `${run.error.message} (${run.id})` })}\n`);
    return refused ? EXIT.denied : EXIT.failed;
  }
  return refused ? EXIT.denied : EXIT.ok;
}

/** Skips answers and errors, which are printed at the end of the turn, and the messages of the script. */
function note({ out }: CommandContext, chat_event: ChatEvent, names: Map<string, string>): void {
  if (chat_event.kind === "user_message" || chat_event.kind === "answer" || chat_event.kind === "error")
    return;
  const text = chatEventText(out, chat_event, names);
  if (text !== null) out.note(text);
}

function questionLines({ id, tool, risk, brief }: Approval): string[] {
  return [
    plainLine(`${tool} is awaiting approval (${risk} risk): ${brief}`),
    `Details: backplane approve show ${id}`,
    `Answer: backplane approve allow ${id} (or deny)`,
  ];
}
