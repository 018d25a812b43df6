/** The settings of an installation, from the flags of `plugin install`. */
import { BackplaneError, type InstallationSettings } from "@backplane/contract";
import { type BindingOptions, readBindingSettings } from "../bindings/binding-flags.ts";
import type { CommandContext } from "../context/context.ts";

export interface InstallOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
  strict?: boolean;
  acceptSource?: boolean;
  allowDowngrade?: boolean;
  dryRun?: boolean;
  /** The path of the signature file. */
  signature?: string;
  /** Names of npm packages. */
  allowScripts?: string[];
  /** Names of Python packages. */
  allowBuild?: string[];
}

/** Resolves the names of secrets unless nothing is bound, so an unknown secret is reported before anything is sent. */
export async function readInstallationSettings(
  context: CommandContext,
  options: InstallOptions,
): Promise<InstallationSettings> {
  const { bind, orgWide, strict, acceptSource, allowDowngrade, dryRun } = options;
  const { allowScripts: allow_scripts, allowBuild: allow_builds } = options;
  return {
    ...(bind === false ? {} : await readBindingSettings(context, options)),
    ...(bind === undefined ? {} : { bind }),
    ...(orgWide === true ? { org_wide: true } : {}),
    ...(strict === true ? { strict: true } : {}),
    ...(acceptSource === true ? { accept_source: true } : {}),
    ...(allowDowngrade === true ? { allow_downgrade: true } : {}),
    ...(dryRun === true ? { dry_run: true } : {}),
    ...(allow_scripts === undefined ? {} : { allow_scripts }),
    ...(allow_builds === undefined ? {} : { allow_builds }),
  };
}

const BINDING_FLAGS = [
  "config",
  "name",
  "env",
  "idleTimeout",
  "secret",
  "class",
  "approval",
  "timeout",
  "domains",
  "capabilities",
  "percent",
  "mount",
  "hostTarget",
  "sampling",
  "orgWide",
] as const;

/** Rejects a binding flag without `--bind`, because it would have no effect. */
export function assertNoBindingFlags(options: InstallOptions, source: string): void {
  const flag = findBindingFlag(options);
  if (options.bind === true || flag === null) return;
  throw new BackplaneError("cli.usage", `${flag} applies to a binding and needs --bind.`, {
    fix: `backplane plugin install ${source} --bind, with the same flags`,
  });
}

export function findBindingFlag(options: InstallOptions): string | null {
  const flag = BINDING_FLAGS.find((flag) => options[flag] !== undefined);
  return flag === undefined ? null : `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
