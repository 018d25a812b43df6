/** `audit` and `events`: the audit log and the event stream. */
import { SEMANTIC_EVENTS, type SemanticEventType } from "@backplane/contract";
import { type Command, Option } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import { wholeNumber } from "../command-line/parse-flags.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../context/page.ts";
import { runUntilInterrupted } from "../terminal/io.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addAuditAndEventCommands(program: Command, toAction: ToAction): void {
  const audit = program.command("audit").description("Audit log: who changed what.");
  addPageFlags(audit.command("list").description("List audit entries."))
    .option("--action <name>", "only this action")
    .action(toAction(listAudit));
  audit
    .command("verify")
    .description("Verify the hash chain, the anchor and the export. Exit code 1 if the log was changed.")
    .action(toAction(verifyAudit));
  const events = program.command("events").description("Event stream.");
  events
    .command("tail")
    .description("Print stored events, then new ones until Ctrl-C; with --json one document per line.")
    .option(
      "--since <seq>",
      "only events after this sequence number",
      wholeNumber("--since", 0, Number.MAX_SAFE_INTEGER),
    )
    .option("--after <seq>", "alias of --since", wholeNumber("--after", 0, Number.MAX_SAFE_INTEGER))
    .addOption(new Option("--type <type>", "only events of this type").choices(SEMANTIC_EVENTS))
    .option("--count <number>", "stop after this many events", wholeNumber("--count", 1, 1_000_000))
    .addHelpText("after", "\nExample:\n  backplane events tail --json --type run.completed --count 1\n")
    .action(toAction(tail));
}

async function listAudit(
  context: CommandContext,
  options: PageFlags & { action?: string },
): Promise<undefined> {
  const page = await context.client().audit.list(options);
  showPage(context, page, ["TIME", "ACTOR", "ACTION", "SUBJECT", "DETAILS"], (item) => [
    item.at,
    item.actor,
    item.action,
    item.subject,
    JSON.stringify(item.details),
  ]);
  return undefined;
}

async function verifyAudit(context: CommandContext): Promise<number> {
  const report = await context.client().audit.verify();
  context.out.data(report, () =>
    report.broken === null
      ? `The audit log is intact: ${report.entries} entries, the last with hash ${report.hash}`
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

async function tail(context: CommandContext, options: TailOptions): Promise<undefined> {
  const after = options.since ?? options.after;
  let remaining = options.count ?? Number.POSITIVE_INFINITY;
  await runUntilInterrupted(context.io, async (signal) => {
    const watched = context.client().events.watch({ signal, ...(after === undefined ? {} : { after }) });
    for await (const event of watched) {
      if (options.type !== undefined && event.type !== options.type) continue;
      context.out.line(event, () =>
        plainLine(
          `${event.seq} ${event.occurred_at} ${event.type} ${event.subject.id} ${JSON.stringify(event.summary)}`,
        ),
      );
      remaining -= 1;
      if (remaining === 0) return;
    }
  });
  return undefined;
}
