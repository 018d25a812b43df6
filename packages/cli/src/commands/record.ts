/** `audit` and `events`: what was changed by whom, and what happens now. */
import { SEMANTIC_EVENTS, type SemanticEventType } from "@backplane/contract";
import { type Command, Option } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import { wholeNumber } from "../command-line/parse-flags.ts";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { type PageOptions, pageFlags, showPage } from "../context/page.ts";
import { untilSignal } from "../terminal/io.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addRecordCommands(program: Command, act: Act): void {
  const audit = program.command("audit").description("Who changed what.");
  pageFlags(audit.command("list").description("List changes, chained by hash."))
    .option("--action <name>", "only this action")
    .action(act(listAudit));
  audit
    .command("verify")
    .description(
      "Verify every hash and compare the log with its anchor and its export. Exit code 1 when it was changed.",
    )
    .action(act(verifyAudit));
  const events = program.command("events").description("Facts as they happen.");
  events
    .command("tail")
    .description(
      "Print the events that are kept, then new ones, until Ctrl-C; with --json one document a line.",
    )
    .option(
      "--since <seq>",
      "only those after this number",
      wholeNumber("--since", 0, Number.MAX_SAFE_INTEGER),
    )
    .option("--after <seq>", "the same", wholeNumber("--after", 0, Number.MAX_SAFE_INTEGER))
    .addOption(new Option("--type <type>", "only these").choices(SEMANTIC_EVENTS))
    .option("--count <number>", "end after this many", wholeNumber("--count", 1, 1_000_000))
    .addHelpText("after", "\nExample:\n  backplane events tail --json --type run.completed --count 1\n")
    .action(act(tail));
}

async function listAudit(context: Context, options: PageOptions & { action?: string }): Promise<undefined> {
  const page = await context.client().audit.list(options);
  showPage(context, page, ["AT", "ACTOR", "ACTION", "SUBJECT", "DETAILS"], (item) => [
    item.at,
    item.actor,
    item.action,
    item.subject,
    JSON.stringify(item.details),
  ]);
  return undefined;
}

async function verifyAudit(context: Context): Promise<number> {
  const report = await context.client().audit.verify();
  context.out.data(report, () =>
    report.broken === null
      ? `The audit log is whole: ${report.entries} entries, the last with hash ${report.hash}`
      : plainLine(`The audit log was changed: ${report.broken.reason}. ${report.broken.fix}`),
  );
  return report.status === "ok" ? EXIT.ok : EXIT.failed;
}

interface TailOptions {
  since?: number;
  after?: number;
  type?: SemanticEventType;
  count?: number;
}

async function tail(context: Context, options: TailOptions): Promise<undefined> {
  const after = options.since ?? options.after;
  let left = options.count ?? Number.POSITIVE_INFINITY;
  await untilSignal(context.io, async (signal) => {
    const watched = context.client().events.watch({ signal, ...(after === undefined ? {} : { after }) });
    for await (const event of watched) {
      if (options.type !== undefined && event.type !== options.type) continue;
      context.out.line(event, () =>
        plainLine(
          `${event.seq} ${event.occurred_at} ${event.type} ${event.subject.id} ${JSON.stringify(event.summary)}`,
        ),
      );
      left -= 1;
      if (left === 0) return;
    }
  });
  return undefined;
}
