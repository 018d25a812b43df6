/** `store`: check, back up, repair and restore the files of the store in the home. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addStoreCommands(program: Command, act: Act): void {
  const store = program.command("store").description("The files that everything is kept in.");
  store
    .command("check")
    .description("Read the whole store and name all that is damaged. Exit code 1 when something is.")
    .action(act(check));
  store
    .command("backup [file]")
    .description("Write a whole, checked copy beside the store, or to a file; the gateway may run.")
    .action(act(backUp));
  store
    .command("repair")
    .description("Keep what is whole and set damaged rows aside; the gateway must be stopped.")
    .option("--accept-loss", "go on without commits that are missing")
    .action(act(repair));
  store
    .command("restore <backup>")
    .description(
      "Put a backup in the store's place and keep the files that were there; the gateway must be stopped.",
    )
    .addHelpText("after", "\nExample:\n  backplane store restore ~/.backplane/store.db.schema-12.backup\n")
    .action(act(restore));
}

async function files(context: Context) {
  const { loadConfig, storeFiles } = await import("@backplane/gateway");
  return storeFiles(loadConfig({ home: context.home, env: context.io.env, flags: {} }));
}

async function check(context: Context): Promise<number> {
  const report = (await files(context)).check();
  const { structure, rows, lost_commits } = report;
  const damaged = structure.length + rows.length + lost_commits > 0;
  context.out.data({ status: damaged ? "damaged" : "ok", ...report }, () => {
    if (!damaged) return `${report.file} is whole (${report.bytes} bytes).`;
    const lines = [
      ...(lost_commits === 0 ? [] : [`${lost_commits} acknowledged commits are missing.`]),
      ...structure.map((finding) => `The file: ${finding}`),
      ...rows.map(({ table, id }) => `The row ${id} of the table ${table}`),
    ];
    return [`${report.file} is damaged:`, ...lines.map((line) => `  ${plainLine(line)}`), report.fix].join(
      "\n",
    );
  });
  return damaged ? EXIT.failed : EXIT.ok;
}

async function backUp(context: Context, _options: object, file?: string): Promise<undefined> {
  const to = (await files(context)).backUp(file === undefined ? undefined : resolve(context.io.cwd, file));
  context.out.data({ backup: to }, () => `The store is backed up in ${to}`);
  return undefined;
}

async function repair(context: Context, options: { acceptLoss?: boolean }): Promise<undefined> {
  const done = await (await files(context)).repair(options.acceptLoss === true);
  context.out.data(done, () =>
    [
      `The store is repaired. ${done.rows.length} damaged rows were set aside, ${done.lost_commits} commits are lost.`,
      ...done.rows.slice(0, 20).map(({ table, id }) => plainLine(`  ${table} ${id}`)),
      `The files as they were: ${done.kept}`,
    ].join("\n"),
  );
  return undefined;
}

async function restore(context: Context, _options: object, backup: string): Promise<undefined> {
  const kept = await (await files(context)).restore(resolve(context.io.cwd, backup));
  context.out.data(
    { restored: backup, kept },
    () => `${backup} is in place. The files that were there: ${kept}`,
  );
  return undefined;
}
