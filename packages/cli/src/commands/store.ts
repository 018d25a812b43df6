/** `store`: check, back up, repair and restore the files of the store in the home. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { EXIT } from "../command-line/exit-codes.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addStoreCommands(program: Command, toAction: ToAction): void {
  const store = program.command("store").description("The database files of the gateway.");
  store
    .command("check")
    .description("Check the whole store for damage. Exit code 1 if there is any.")
    .action(toAction(check));
  store
    .command("backup [file]")
    .description("Write a verified copy next to the store, or to a file. The gateway may be running.")
    .action(toAction(backUp));
  store
    .command("repair")
    .description("Move damaged rows out of the store. The gateway must be stopped.")
    .option("--accept-loss", "continue even if commits are missing")
    .action(toAction(repair));
  store
    .command("restore <backup>")
    .description("Replace the store with a backup and keep the previous files. The gateway must be stopped.")
    .addHelpText("after", "\nExample:\n  backplane store restore ~/.backplane/store.db.schema-12.backup\n")
    .action(toAction(restore));
}

async function openStoreFiles(context: CommandContext) {
  const { loadConfig, storeFiles } = await import("@backplane/gateway");
  return storeFiles(loadConfig({ home: context.home, env: context.io.env, flags: {} }));
}

async function check(context: CommandContext): Promise<number> {
  const report = (await openStoreFiles(context)).check();
  const { structure, rows, lost_commits } = report;
  const damaged = structure.length + rows.length + lost_commits > 0;
  context.out.data({ status: damaged ? "damaged" : "ok", ...report }, () => {
    if (!damaged) return `${report.file} is intact (${report.bytes} bytes).`;
    const lines = [
      ...(lost_commits === 0 ? [] : [`${lost_commits} acknowledged commits are missing.`]),
      ...structure.map((finding) => `File: ${finding}`),
      ...rows.map(({ table, id }) => `Row ${id} of table ${table}`),
    ];
    return [`${report.file} is damaged:`, ...lines.map((line) => `  ${plainLine(line)}`), report.fix].join(
      "\n",
    );
  });
  return damaged ? EXIT.failed : EXIT.ok;
}

async function backUp(context: CommandContext, _options: object, file?: string): Promise<undefined> {
  const backup_file = (await openStoreFiles(context)).backUp(
    file === undefined ? undefined : resolve(context.io.cwd, file),
  );
  context.out.data({ backup: backup_file }, () => `Backed up the store to ${backup_file}`);
  return undefined;
}

async function repair(context: CommandContext, options: { acceptLoss?: boolean }): Promise<undefined> {
  const result = await (await openStoreFiles(context)).repair(options.acceptLoss === true);
  context.out.data(result, () =>
    [
      `Repaired the store: ${result.rows.length} damaged rows were moved out, ${result.lost_commits} commits are lost.`,
      ...result.rows.slice(0, 20).map(({ table, id }) => plainLine(`  ${table} ${id}`)),
      `Previous files: ${result.kept}`,
    ].join("\n"),
  );
  return undefined;
}

async function restore(context: CommandContext, _options: object, backup: string): Promise<undefined> {
  const kept = await (await openStoreFiles(context)).restore(resolve(context.io.cwd, backup));
  context.out.data({ restored: backup, kept }, () => `Restored ${backup}. Previous files: ${kept}`);
  return undefined;
}
