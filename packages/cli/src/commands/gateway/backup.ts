/** `backup` and `restore`: one archive of the store, packages, artifacts, plugin data and configuration of a home. */
import { resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { Command } from "commander";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";

export function addBackupCommands(program: Command, toAction: ToAction): void {
  program
    .command("backup [file]")
    .description(
      "Write the store, packages, artifacts, plugin data and configuration of this home to one archive. The gateway may be running.",
    )
    .option(
      "--with-credentials",
      "add secret.key and admin.token; anyone with the archive can then open every secret",
    )
    .addHelpText(
      "after",
      `
The secrets in the archive are sealed. Without secret.key nobody can open them: store a copy of that file separately
from the archives, or use --with-credentials and protect the archive as carefully as the key.

Example:
  backplane backup /backups/backplane-monday.tar.gz
`,
    )
    .action(toAction(backUp));
  program
    .command("restore [archive]")
    .description("Replace this home with an archive that `backup` wrote. The gateway must be stopped.")
    .option("--force", "replace a home that is not empty; its files are moved to a subfolder of the home")
    .option("--key <file>", "the secret.key that sealed the secrets, if the archive does not contain it")
    .option("--resume", "complete a restore that was interrupted")
    .addHelpText(
      "after",
      `
Example:
  backplane restore backplane-monday.tar.gz --key /safe/secret.key
`,
    )
    .action(toAction(restore));
}

async function backUp(
  context: CommandContext,
  options: { withCredentials?: boolean },
  file = `backplane-${new Date().toISOString().replaceAll(/[:.]/g, "-")}.tar.gz`,
): Promise<undefined> {
  const { home, io, out } = context;
  const { createBackup, loadConfig } = await import("@backplane/gateway");
  const credentials = options.withCredentials === true;
  const config = loadConfig({ home, env: io.env, flags: {} });
  const backup = await out.during(`Backing up ${home}`, () =>
    createBackup(config, { to: resolve(io.cwd, file), credentials, progress: (text) => out.note(text) }),
  );
  out.data({ ...backup, home }, () => `Backed up ${home} to ${backup.file} (${backup.bytes} bytes)`);
  out.note(
    credentials
      ? "The archive contains secret.key and admin.token: protect it as carefully as those files."
      : `The secrets in the archive are sealed, and ${config.secret_key_file} is not part of it. Keep a copy of that file elsewhere.`,
  );
  return undefined;
}

interface RestoreFlags {
  force?: boolean;
  key?: string;
  resume?: boolean;
}

async function restore(context: CommandContext, options: RestoreFlags, archive?: string): Promise<undefined> {
  const { home, io, out } = context;
  const { loadConfig, restoreBackup, resumeRestore } = await import("@backplane/gateway");
  if (options.resume === true) {
    const kept = await out.during(`Restoring ${home}`, () => resumeRestore(home));
    out.data({ restored: home, kept }, () => `Completed the restore of ${home}.`);
    return undefined;
  }
  if (archive === undefined) {
    throw new BackplaneError("cli.usage", "Specify the archive to restore.", {
      fix: "backplane restore ARCHIVE",
    });
  }
  const { manifest, kept, missing_keys } = await out.during(`Restoring ${home}`, () =>
    restoreBackup({
      home,
      env: io.env,
      archive: resolve(io.cwd, archive),
      force: options.force === true,
      progress: (text) => out.note(text),
      ...(options.key === undefined ? {} : { key_file: resolve(io.cwd, options.key) }),
    }),
  );
  const { created_at, version, store } = manifest;
  out.data({ restored: home, created_at, version, store: store.kind, kept, missing_keys }, () =>
    [
      `Restored ${home} as it was at ${created_at}.`,
      ...(kept === null ? [] : [`Previous files: ${kept}`]),
    ].join("\n"),
  );
  if (missing_keys.length > 0) {
    const { secret_key_file } = loadConfig({ home, env: io.env, flags: {} });
    out.note(
      `The secrets were sealed with a key that this home does not have (${missing_keys.join(", ")}). Before you start the gateway, put the old key file at ${secret_key_file}; otherwise set every secret again.`,
    );
  }
  return undefined;
}
