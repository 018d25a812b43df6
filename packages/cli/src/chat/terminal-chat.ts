/**
 * A chat at a terminal. One line editor reads all input. A line answers the open question, is a local command, joins
 * the running turn, or starts a new turn.
 */
import { type Run, type Session, toBackplaneError } from "@backplane/contract";
import { errorLines, toErrorReport } from "../command-line/error-report.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { WorkspaceOptions } from "../command-line/workspace-flag.ts";
import type { CommandContext } from "../context/context.ts";
import { LineEditor } from "../terminal/line-editor.ts";
import { plainText } from "../terminal/plain-text.ts";
import { AnswerText } from "./answer-text.ts";
import { ApprovalQueue } from "./approval-queue.ts";
import { type ChatCommand, readChatCommand, runChatCommand } from "./chat-commands.ts";
import { chatEventText } from "./chat-event-text.ts";
import type { ChatEvent } from "./chat-events.ts";
import { Conversation } from "./conversation.ts";

const DOUBLE_PRESS_MS = 2_000;

export async function runTerminalChat(
  context: CommandContext,
  session: Session,
  workspace_options: WorkspaceOptions,
): Promise<number> {
  const chat = new TerminalChat(context, workspace_options);
  return await chat.run(session);
}

class TerminalChat {
  readonly #context: CommandContext;
  readonly #workspace_options: WorkspaceOptions;
  readonly #editor: LineEditor;
  readonly #text: AnswerText;
  readonly #questions: ApprovalQueue;
  readonly #names = new Map<string, string>();
  readonly #exit = Promise.withResolvers<number>();
  #conversation!: Conversation;
  #reported_run_id = "";
  #interrupted_at = Number.NEGATIVE_INFINITY;

  constructor(context: CommandContext, workspace_options: WorkspaceOptions) {
    const { io } = context;
    this.#context = context;
    this.#workspace_options = workspace_options;
    this.#text = new AnswerText((text) => io.stdout.write(plainText(text)));
    this.#editor = new LineEditor(io, {
      line: (line) => void this.#onLine(line),
      interrupt: () => this.#interrupt(),
      end: () => this.#exit.resolve(EXIT.ok),
    });
    this.#questions = new ApprovalQueue(context, this.#editor, () => this.#text.endLine());
  }

  async run(session: Session): Promise<number> {
    const { io } = this.#context;
    const stopListening = io.onSignal((signal) =>
      signal === "SIGINT" ? this.#interrupt() : this.#exit.resolve(EXIT.ok),
    );
    try {
      await this.#openConversation(session);
      this.#print(`Session ${session.id}. /help for help, Ctrl-D to leave.`);
      this.#editor.prompt();
      return await this.#exit.promise;
    } finally {
      stopListening();
      this.#editor.close();
      await this.#conversation.close();
    }
  }

  async #openConversation(session: Session): Promise<void> {
    const ref = { session_id: session.id, ...this.#workspace_options };
    this.#conversation = new Conversation(this.#context, ref, {
      onEvent: (chat_event) => this.#show(chat_event),
      onApproval: (approval) => this.#questions.add(approval, ref.session_id),
      onDecision: () => void this.#questions.refresh(),
    });
    await this.#conversation.open(session.last_entry_id);
  }

  async #onLine(line: string): Promise<void> {
    const command = readChatCommand(line);
    try {
      if (command !== null) await this.#runCommand(command);
      else if (line.trim() !== "") this.#report(await this.#conversation.sendMessage(line));
    } catch (error) {
      this.#text.reset();
      this.#print(errorLines(toErrorReport(toBackplaneError(error))));
    }
    this.#promptIfIdle();
  }

  async #runCommand(command: ChatCommand): Promise<void> {
    if (command.name === "quit") {
      this.#exit.resolve(EXIT.ok);
      return;
    }
    const { text, session } = await runChatCommand(this.#context, this.#conversation.ref, command);
    this.#print(text);
    if (session === undefined) return;
    await this.#conversation.close();
    await this.#openConversation(session);
  }

  #show(chat_event: ChatEvent): void {
    const text = this.#text;
    if (text.handle(chat_event)) return;
    // The user's own message is already on the screen; an error is reported at the end of the turn.
    if (chat_event.kind === "user_message" || chat_event.kind === "error") return;
    const event_text = chatEventText(this.#context.out, chat_event, this.#names);
    if (event_text === null) return;
    text.endLine();
    this.#print(event_text);
  }

  /** Several lines may belong to the same turn, which is reported once. */
  #report({ status, error, id }: Run): void {
    if (this.#reported_run_id === id) return;
    this.#reported_run_id = id;
    this.#text.endLine();
    if (status === "failed" && error !== null)
      this.#print(errorLines({ ...error, message: `${error.message} (${id})` }));
  }

  /** The first Ctrl-C ends the turn or clears the line; a second one within two seconds leaves. */
  #interrupt(): void {
    const now = performance.now();
    const twice = now - this.#interrupted_at < DOUBLE_PRESS_MS;
    this.#interrupted_at = now;
    if (twice) {
      this.#exit.resolve(EXIT.interrupted);
    } else if (this.#conversation.running) {
      this.#questions.clear();
      this.#conversation.interrupt().catch((error: unknown) => {
        this.#print(errorLines(toErrorReport(toBackplaneError(error))));
      });
    } else {
      this.#print("Press Ctrl-C again or Ctrl-D to leave.");
      this.#editor.prompt();
    }
  }

  #promptIfIdle(): void {
    if (!this.#conversation.running) this.#editor.prompt();
  }

  #print(text: string): void {
    this.#context.io.stderr.write(`${text}\n`);
  }
}
