/** The settings of an installation, from the flags of `plugin install`. */
import { BackplaneError, type InstallationSettings } from "@backplane/contract";
import { type BindingOptions, bindingParts } from "../bindings/binding-flags.ts";
import type { Context } from "../context/context.ts";

export interface InstallOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
  strict?: boolean;
}

/** Resolves the names of secrets, so that an unknown one is reported before anything is sent. */
export async function installationSettings(
  context: Context,
  options: InstallOptions,
): Promise<InstallationSettings> {
  const { bind, orgWide, strict } = options;
  return {
    ...(bind === false ? {} : await bindingParts(context, options)),
    ...(bind === undefined ? {} : { bind }),
    ...(orgWide === true ? { org_wide: true } : {}),
    ...(strict === true ? { strict: true } : {}),
  };
}

const BINDING_FLAGS = [
  "config",
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

/** Rejects a binding flag that would have no effect. */
export function assertNoBindingFlags(options: InstallOptions, source: string): void {
  const named = BINDING_FLAGS.find((flag) => options[flag] !== undefined);
  if (options.bind === true || named === undefined) return;
  const flag = named.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new BackplaneError("cli.usage", `--${flag} applies to a binding and needs --bind.`, {
    fix: `backplane plugin install ${source} --bind, with the same flags`,
  });
}
