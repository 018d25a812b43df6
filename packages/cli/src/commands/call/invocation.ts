/** `invocation`: records of past and running calls. */
import { createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { INVOCATION_STATUSES, type InvocationStatus } from "@backplane/contract";
import { type Command, Option } from "commander";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../../context/page.ts";
import { runUntilInterrupted } from "../../terminal/io.ts";
import { classText, describeInvocation, eventLine } from "./invocation-text.ts";

interface ListOptions extends PageFlags {
  status?: InvocationStatus;
  export?: string;
  session?: string;
  binding?: string;
}

export function addInvocationCommands(program: Command, toAction: ToAction): void {
  const invocation = program.command("invocation").description("Past and running calls.");
  addPageFlags(invocation.command("list").description("List calls."))
    .addOption(new Option("--status <status>", "only calls with this status").choices(INVOCATION_STATUSES))
    .option("--export <id>", "only calls to this export")
    .option("--session <id>", "only calls of this session")
    .option("--binding <id>", "only calls of this binding")
    .action(toAction(async (context, options: ListOptions) => printInvocations(context, options)));
  invocation
    .command("show <id>")
    .description("Show a call: arguments, result, grant, stderr.")
    .action(toAction(show));
  invocation
    .command("artifact <id> <sha256>")
    .description("Download a file from the result of a call.")
    .requiredOption("-o, --output <file>", "output file; - for stdout")
    .action(toAction(artifact));
  invocation.command("cancel <id>").description("Cancel a call.").action(toAction(cancel));
  invocation
    .command("events <id>")
    .description("Print the events of a call until it ends; with --json one document per line.")
    .option(
      "--after <seq>",
      "only events after this sequence number",
      wholeNumber("--after", 0, Number.MAX_SAFE_INTEGER),
    )
    .action(toAction(events));
}

export async function printInvocations(context: CommandContext, options: ListOptions): Promise<undefined> {
  const { limit, after, status, session, binding } = options;
  const page = await context.client().invocations.list({
    ...(limit === undefined ? {} : { limit }),
    ...(after === undefined ? {} : { after }),
    ...(status === undefined ? {} : { status }),
    ...(options.export === undefined ? {} : { export_id: options.export }),
    ...(session === undefined ? {} : { session_id: session }),
    ...(binding === undefined ? {} : { binding_id: binding }),
  });
  showPage(context, page, ["ID", "EXPORT", "STATUS", "ERROR", "CLASS", "CREATED", "MS"], (item) => [
    item.id,
    item.export_id,
    item.status,
    // `is_error`: the call succeeded, but the tool reported an error as its result.
    item.error?.code ?? (item.tool_result?.is_error === true ? "is_error" : null),
    classText(item),
    item.created_at,
    item.started_at === null || item.ended_at === null
      ? null
      : Date.parse(item.ended_at) - Date.parse(item.started_at),
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const invocation = await context.client().invocations.get(id);
  context.out.data(invocation, () => describeInvocation(invocation));
  return undefined;
}

interface ArtifactOptions {
  output: string;
}

async function artifact(
  context: CommandContext,
  { output }: ArtifactOptions,
  id: string,
  sha256: string,
): Promise<undefined> {
  const response = await context.client().invocations.artifact(id, sha256);
  const body = Readable.fromWeb(response.body as ReadableStream<Uint8Array>);
  if (output === "-") {
    await pipeline(body, context.io.stdout, { end: false });
    return undefined;
  }
  const file = resolve(context.io.cwd, output);
  await pipeline(body, createWriteStream(file, { mode: 0o600 }));
  const { size } = await stat(file);
  context.out.data({ file, bytes: size, sha256 }, () => `${file} (${size} bytes)`);
  return undefined;
}

async function cancel(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const record = await context.client().invocations.cancel(id);
  context.out.data(record, () => `Cancelling ${id} (now ${record.status})`);
  return undefined;
}

async function events(context: CommandContext, options: { after?: number }, id: string): Promise<undefined> {
  const after = options.after ?? 0;
  await runUntilInterrupted(context.io, async (signal) => {
    for await (const item of context.client().invocations.watch(id, { after, signal })) {
      if ("settled" in item) {
        context.out.line(item, () => `settled: ${item.settled.status}`);
        return;
      }
      context.out.line(item, () => `${item.seq} ${item.at} ${eventLine(item)}`);
    }
  });
  return undefined;
}
