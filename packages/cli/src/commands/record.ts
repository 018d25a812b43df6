/** `audit` and `events`: what was changed by whom, and what happens now. */
import type { Command } from "commander";
import type { Act } from "../act.ts";
import type { Context } from "../context.ts";
import { type PageOptions, pageFlags, showPage } from "../page.ts";
import { wholeNumber } from "../parse-flags.ts";
import { plainLine } from "../plain-text.ts";
import { untilSignal } from "../until-signal.ts";

export function addRecordCommands(program: Command, act: Act): void {
  const audit = program.command("audit").description("Who changed what.");
  pageFlags(audit.command("list").description("List changes, chained by hash."))
    .option("--action <name>", "only this action")
    .action(act(listAudit));
  const events = program.command("events").description("Facts as they happen.");
  events
    .command("tail")
    .description(
      "Print the events that are kept, then new ones, until Ctrl-C; with --json one document a line.",
    )
    .option(
      "--after <seq>",
      "only those after this number",
      wholeNumber("--after", 0, Number.MAX_SAFE_INTEGER),
    )
    .option("--count <number>", "end after this many", wholeNumber("--count", 1, 1_000_000))
    .addHelpText("after", "\nExample:\n  backplane events tail --json --after 0 --count 10\n")
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

async function tail(context: Context, options: { after?: number; count?: number }): Promise<undefined> {
  let left = options.count ?? Number.POSITIVE_INFINITY;
  await untilSignal(context.io, async (signal) => {
    const watched = context
      .client()
      .events.watch({ signal, ...(options.after === undefined ? {} : { after: options.after }) });
    for await (const event of watched) {
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
