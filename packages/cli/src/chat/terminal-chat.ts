/**
 * A conversation at a terminal. One line editor takes everything that is typed: what it means depends on whether a
 * question is open, a turn runs (then the line joins it), or neither.
 */
import type { Run, Session } from "@backplane/contract";
import { toBackplaneError } from "@backplane/contract";
import { errorLines, toFailure } from "../command-line/error-report.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Where } from "../command-line/workspace-flag.ts";
import type { Context } from "../context/context.ts";
import { LineEditor } from "../terminal/line-editor.ts";
import { plainText } from "../terminal/plain-text.ts";
import { AnswerText } from "./answer-text.ts";
import { ApprovalQueue } from "./approval-queue.ts";
import { type ChatCommand, readChatCommand, runChatCommand } from "./chat-commands.ts";
import { momentText } from "./chat-event-text.ts";
import type { Moment } from "./chat-events.ts";
import { Conversation } from "./conversation.ts";

const TWICE_MS = 2_000;

export async function chatAtTerminal(context: Context, session: Session, where: Where): Promise<number> {
  const chat = new TerminalChat(context, where);
  return await chat.run(session);
}

class TerminalChat {
  readonly #context: Context;
  readonly #where: Where;
  readonly #editor: LineEditor;
  readonly #text: AnswerText;
  readonly #questions: ApprovalQueue;
  readonly #names = new Map<string, string>();
  readonly #left = Promise.withResolvers<number>();
  #conversation!: Conversation;
  #reported = "";
  #interrupted_at = Number.NEGATIVE_INFINITY;

  constructor(context: Context, where: Where) {
    const { io } = context;
    this.#context = context;
    this.#where = where;
    this.#text = new AnswerText((text) => io.stdout.write(plainText(text)));
    this.#editor = new LineEditor(io, {
      line: (line) => void this.#typed(line),
      interrupt: () => this.#interrupt(),
      end: () => this.#left.resolve(EXIT.ok),
    });
    this.#questions = new ApprovalQueue(context, this.#editor, () => this.#text.endLine());
  }

  async run(session: Session): Promise<number> {
    const { io } = this.#context;
    const silence = io.onSignal((signal) =>
      signal === "SIGINT" ? this.#interrupt() : this.#left.resolve(EXIT.ok),
    );
    try {
      await this.#enter(session);
      this.#say(`Session ${session.id}. /help for help, Ctrl-D to leave.`);
      this.#editor.prompt();
      return await this.#left.promise;
    } finally {
      silence();
      this.#editor.close();
      await this.#conversation.close();
    }
  }

  async #enter(session: Session): Promise<void> {
    const ref = { session_id: session.id, ...this.#where };
    this.#conversation = new Conversation(this.#context, ref, {
      heard: (moment) => this.#show(moment),
      asked: (approval) => this.#questions.add(approval, ref.session_id),
      decided: () => void this.#questions.look(),
    });
    await this.#conversation.open(session.last_entry_id);
  }

  async #typed(line: string): Promise<void> {
    const command = readChatCommand(line);
    try {
      if (command !== null) await this.#obey(command);
      else if (line.trim() !== "") this.#report(await this.#conversation.say(line));
    } catch (error) {
      this.#text.reset();
      this.#say(errorLines(toFailure(toBackplaneError(error))));
    }
    this.#promptIfIdle();
  }

  async #obey(command: ChatCommand): Promise<void> {
    if (command.name === "quit") {
      this.#left.resolve(EXIT.ok);
      return;
    }
    const { text, session } = await runChatCommand(this.#context, this.#conversation.ref, command);
    this.#say(text);
    if (session === undefined) return;
    await this.#conversation.close();
    await this.#enter(session);
  }

  #show(moment: Moment): void {
    const text = this.#text;
    if (text.take(moment)) return;
    // One's own words are on the screen; a failure is told with the turn's end.
    if (moment.kind === "said" || moment.kind === "trouble") return;
    const shown = momentText(this.#context.out, moment, this.#names);
    if (shown === null) return;
    text.endLine();
    this.#say(shown);
  }

  /** Several lines may have been said into one turn. */
  #report({ status, error, id }: Run): void {
    if (this.#reported === id) return;
    this.#reported = id;
    this.#text.endLine();
    if (status === "failed" && error !== null)
      this.#say(errorLines({ ...error, message: `${error.message} (${id})` }));
  }

  /** The first ends the turn, or clears the line; a second soon after leaves. */
  #interrupt(): void {
    const now = performance.now();
    const twice = now - this.#interrupted_at < TWICE_MS;
    this.#interrupted_at = now;
    if (twice) {
      this.#left.resolve(EXIT.interrupted);
    } else if (this.#conversation.running) {
      this.#questions.clear();
      this.#conversation.interrupt().catch((error: unknown) => {
        this.#say(errorLines(toFailure(toBackplaneError(error))));
      });
    } else {
      this.#say("Ctrl-C again or Ctrl-D leaves.");
      this.#editor.prompt();
    }
  }

  #promptIfIdle(): void {
    if (!this.#conversation.running) this.#editor.prompt();
  }

  #say(text: string): void {
    this.#context.io.stderr.write(`${text}\n`);
  }
}
