/** `run`: single turns and runs of harnesses, for scripts that manage session ids themselves. */
import type { RunBody } from "@backplane/client";
import {
  BackplaneError,
  codeOf,
  RISK_CONTEXTS,
  type RiskContext,
  type Run,
  type Session,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { AnswerText } from "../../chat/answer-text.ts";
import { chatEventText } from "../../chat/chat-event-text.ts";
import type { ChatEvent } from "../../chat/chat-events.ts";
import { Conversation } from "../../chat/conversation.ts";
import { errorLines } from "../../command-line/error-report.ts";
import { EXIT, toExitCode } from "../../command-line/exit-codes.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { addWorkspaceFlag, type WorkspaceOptions, workspaceOf } from "../../command-line/workspace-flag.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../../context/page.ts";
import { fields } from "../../terminal/output.ts";
import { plainText } from "../../terminal/plain-text.ts";
import { readStdin } from "../../terminal/read-input.ts";
import { buildHarness, type HarnessFlags, resumeHarnessRun, startHarnessRun } from "./harness-run.ts";

const MAX_INPUT_CHARS = 60;

/** The gateway checks the maximum of each limit, so this bound is wide. */
const limitParser = (flag: string) => wholeNumber(flag, 0, 1_000_000_000);

const EXAMPLES = `
Examples:
  backplane run start --session nightly --input 'Report' --wait
  backplane run start --session bug-7 --harness triage --input 'Investigate the bug' --wait
`;

interface StartOptions extends WorkspaceOptions, HarnessFlags {
  session: string;
  input: string;
  strategy?: string;
  context?: RiskContext;
  wait?: boolean;
  stream?: boolean;
}

export function addRunCommands(program: Command, toAction: ToAction): void {
  const run = program.command("run").description("Single turns of an agent, and runs of harnesses.");
  addWorkspaceFlag(run.command("start"))
    .description("Start a turn; prints the run id, or the answer with --wait or --stream.")
    .requiredOption("--session <id>", "session id; the session is created if it does not exist")
    .requiredOption("--input <text>", "message; - reads stdin")
    .option("--strategy <id>", "strategy to use instead of the session's")
    .addOption(new Option("--context <context>", "risk context (default: background)").choices(RISK_CONTEXTS))
    .option("--wait", "wait for the turn to end and print the answer")
    .option("--stream", "print the answer as it streams")
    .option("--harness <export>", "execute this harness instead of a turn of the agent loop")
    .option("--package <id>", "the package of the harness, if several packages have a harness with this name")
    .option("--max-child-runs <n>", "how many runs the harness may start", limitParser("--max-child-runs"))
    .option("--max-depth <n>", "how deeply the runs of the harness may be nested", limitParser("--max-depth"))
    .option(
      "--max-steps <n>",
      "how many model calls all runs of the harness may make",
      limitParser("--max-steps"),
    )
    .option(
      "--max-time <ms>",
      "how long the execution may take, across all its resumes",
      limitParser("--max-time"),
    )
    .option("--no-compaction", "do not allow the harness to compact sessions")
    .addHelpText("after", EXAMPLES)
    .action(toAction(start));
  run
    .command("resume <id>")
    .description("Continue the harness of an ended run from its last checkpoint, in a new run.")
    .option("--input <text>", "message; without one, the harness gets the message of the ended run again")
    .option("--wait", "wait for the end and print the summary")
    .action(toAction(resume));
  addPageFlags(addWorkspaceFlag(run.command("list")))
    .description("List runs, newest first.")
    .option("--session <id>", "only runs of this session")
    .action(toAction(list));
  run.command("show <id>").description("Show a run.").action(toAction(show));
  run
    .command("cancel <id>")
    .description("Cancel a run and wait until it has ended.")
    .action(toAction(cancel));
}

async function start(context: CommandContext, options: StartOptions): Promise<number> {
  const { runs } = context.client();
  const { session: session_id, strategy, context: risk_context } = options;
  const text = options.input === "-" ? (await readStdin(context.io)).toString("utf8") : options.input;
  if (text.trim() === "") throw new BackplaneError("cli.usage", "--input is empty.", { fix: "--input TEXT" });
  const body = {
    session_id,
    ...workspaceOf(options),
    input: { text },
    ...(strategy === undefined ? {} : { strategy }),
    ...(risk_context === undefined ? {} : { context: risk_context }),
  };
  if (options.harness !== undefined)
    return await startHarness(context, options, { ...body, harness: buildHarness(options.harness, options) });
  if (options.wait !== true && options.stream !== true) {
    const run = await runs.start(body);
    context.out.data(run, () => run.id);
    context.out.note(`Started. To see the run: backplane run show ${run.id}`);
    return EXIT.ok;
  }
  const session = await getOrCreateSession(context, options);
  return await followRun(context, options, session.last_entry_id, () => runs.start(body));
}

/** With `--stream`, the answers and steps of the session are printed to stderr as they happen, the result to stdout. */
async function startHarness(context: CommandContext, options: StartOptions, body: RunBody): Promise<number> {
  if (options.stream !== true) return await startHarnessRun(context, body, options);
  const { last_entry_id } = await getOrCreateSession(context, options);
  const text = new AnswerText((chunk) => context.io.stderr.write(plainText(chunk)));
  const names = new Map<string, string>();
  const ref = { session_id: options.session, ...workspaceOf(options) };
  const conversation = new Conversation(context, ref, {
    onEvent(chat_event) {
      // The answer of a turn contains its run id; the answer without one is the result of the harness itself.
      if (chat_event.kind === "answer" && chat_event.run_id === undefined) return;
      printEvent(context, text, chat_event, names);
      if (chat_event.kind === "answer") text.endLine();
    },
    onApproval: ({ id }) => context.out.note(`Awaiting approval: backplane approve show ${id}`),
    onDecision: () => {},
  });
  try {
    await conversation.open(last_entry_id);
    return await startHarnessRun(context, body, { wait: true, show_status: false });
  } finally {
    await conversation.close();
  }
}

async function getOrCreateSession(context: CommandContext, options: StartOptions): Promise<Session> {
  const { sessions } = context.client();
  try {
    return await sessions.get(options.session, workspaceOf(options));
  } catch (error) {
    if (codeOf(error) !== "session.not_found") throw error;
    return await sessions.create({ session_id: options.session, ...workspaceOf(options) });
  }
}

async function resume(
  context: CommandContext,
  options: { input?: string; wait?: boolean },
  id: string,
): Promise<number> {
  return await resumeHarnessRun(context, await context.client().runs.get(id), options);
}

async function followRun(
  context: CommandContext,
  options: StartOptions,
  since_entry: number,
  begin: () => Promise<Run>,
): Promise<number> {
  const { out, io } = context;
  const wait = out.status.begin("Waiting for the answer");
  const text = new AnswerText((chunk) => {
    // Otherwise the status line would be printed inside the text.
    wait.end();
    io.stdout.write(plainText(chunk));
  });
  const names = new Map<string, string>();
  const streams = options.stream === true && !out.json;
  const ref = { session_id: options.session, ...workspaceOf(options) };
  const conversation = new Conversation(context, ref, {
    onEvent: (chat_event) => printEvent(context, streams ? text : null, chat_event, names),
    onApproval: ({ id }) => out.note(`Awaiting approval: backplane approve show ${id}`),
    onDecision: () => {},
  });
  let interrupts = 0;
  const stopListening = io.onSignal(() => {
    if (++interrupts > 1) return io.exit(EXIT.interrupted);
    conversation.interrupt().catch(() => io.exit(EXIT.interrupted));
  });
  try {
    await conversation.open(since_entry);
    const run = await conversation.follow((await begin()).id);
    text.endLine();
    if (!streams) out.data(run, () => plainText(run.output?.content ?? ""));
    return await reportRun(context, conversation, run, interrupts > 0);
  } finally {
    wait.end();
    stopListening();
    await conversation.close();
  }
}

function printEvent(
  { out }: CommandContext,
  text: AnswerText | null,
  chat_event: ChatEvent,
  names: Map<string, string>,
): undefined {
  if (text?.handle(chat_event) === true) return;
  if (chat_event.kind === "user_message" || chat_event.kind === "answer" || chat_event.kind === "error")
    return;
  const event_text = chatEventText(out, chat_event, names);
  if (event_text !== null) out.note(event_text);
}

async function reportRun(
  context: CommandContext,
  conversation: Conversation,
  run: Run,
  interrupted: boolean,
): Promise<number> {
  if (interrupted) return EXIT.interrupted;
  const refused = await conversation.hasRejection();
  if (run.error !== null) {
    const { code, message } = run.error;
    context.io.stderr.write(`${errorLines({ code, message: `${message} (${run.id})` })}\n`);
    return refused ? EXIT.denied : toExitCode(code);
  }
  return refused ? EXIT.denied : EXIT.ok;
}

async function list(
  context: CommandContext,
  options: PageFlags & WorkspaceOptions & { session?: string },
): Promise<undefined> {
  const { session, limit, after } = options;
  const page = await context.client().runs.list({
    ...workspaceOf(options),
    ...(session === undefined ? {} : { session_id: session }),
    ...(limit === undefined ? {} : { limit }),
    ...(after === undefined ? {} : { after }),
  });
  showPage(context, page, ["ID", "SESSION", "STATUS", "STARTED BY", "STARTED", "INPUT"], (run: Run) => [
    run.id,
    run.session_id,
    run.error === null ? run.status : `${run.status} (${run.error.code})`,
    run.requested_by,
    run.started_at,
    shorten(run.input.text),
  ]);
  return undefined;
}

function shorten(text: string): string {
  const line = plainText(text).split("\n", 1)[0]!;
  return line.length <= MAX_INPUT_CHARS ? line : `${line.slice(0, MAX_INPUT_CHARS - 1)}…`;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const run = await context.client().runs.get(id);
  context.out.data(run, () => describe(run));
  return undefined;
}

async function cancel(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const run = await context.client().runs.cancel(id);
  context.out.data(run, () => `Cancelled ${id}`);
  return undefined;
}

function describe(run: Run): string {
  const { id, session_id, chain_id, status, trigger, strategy, iterations, usage, error, parent_run_id } =
    run;
  const summary = fields({
    id,
    session: session_id,
    chain: chain_id,
    status,
    started_by: `${run.requested_by} (${trigger})`,
    parent: parent_run_id ?? undefined,
    strategy,
    execution: run.harness?.execution_id,
    model_calls: iterations,
    resumed: run.resumed === undefined ? undefined : `${run.resumed}× after a crash`,
    tokens: `${usage.input} in, ${usage.output} out`,
    started: run.started_at,
    ended: run.ended_at,
    error: error === null ? undefined : `${error.code}: ${error.message}`,
  });
  const answer = run.output === null ? "" : `\nanswer:\n${plainText(run.output.content)}`;
  return `${summary}\ninput:\n${plainText(run.input.text)}${answer}`;
}
