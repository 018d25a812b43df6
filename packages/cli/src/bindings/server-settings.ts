/**
 * Settings of an MCP server that can be changed after its installation: name, arguments, environment, idle timeout and
 * secrets.
 */
import {
  BackplaneError,
  type Binding,
  boundServerName,
  placeholderSlots,
  type Runtime,
} from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { findInstalledPackage } from "../packages/find-package.ts";
import { plainLine } from "../terminal/plain-text.ts";
import type { BindingFlagSettings, BindingOptions } from "./binding-flags.ts";
import { ifAllowed } from "./report-tools.ts";

const SERVER_FLAGS = ["name", "args", "env", "unsetEnv", "idleTimeout"] as const;

/**
 * A server on stdio receives a secret in a variable named after its slot, in capitals, unless the binding specifies
 * another variable or the configuration specifies where the secret is used.
 */
export async function completeServerSettings(
  context: CommandContext,
  current: Binding,
  options: BindingOptions,
  settings: BindingFlagSettings,
  unset_slots: readonly string[],
): Promise<BindingFlagSettings> {
  const flag = SERVER_FLAGS.find((name) => options[name] !== undefined);
  const slots = Object.keys(options.secret ?? {});
  if (flag === undefined && slots.length === 0 && unset_slots.length === 0) return settings;
  const runtime = await readRuntime(context, current);
  const protocol = runtime?.protocol ?? null;
  if (flag !== undefined && protocol !== null && !protocol.startsWith("mcp."))
    throw notAServerError(flag, current);
  if (protocol !== "mcp.stdio") return settings;
  const { args = null, env = null } = settings.config ?? current.config;
  const assigned = new Set([
    ...placeholderSlots([args, env]),
    ...Object.keys(current.policy.secret_env ?? {}),
  ]);
  const added = slots.filter((slot) => !assigned.has(slot));
  // A slot that only the binding defines is removed together with its secret.
  const declared = runtime?.permissions?.secret_slots ?? [];
  const removed = unset_slots.filter(
    (slot) => !declared.includes(slot) && current.policy.secret_env?.[slot] !== undefined,
  );
  if (added.length === 0 && removed.length === 0) return settings;
  const remaining = Object.entries(current.policy.secret_env ?? {}).filter(
    ([slot]) => !removed.includes(slot),
  );
  const variables = added.map((slot) => [slot, slot.toUpperCase()] as const);
  return {
    ...settings,
    policy: { ...settings.policy, secret_env: Object.fromEntries([...remaining, ...variables]) },
  };
}

export function reportNewName({ out }: CommandContext, previous: Binding, current: Binding): void {
  const [old, name] = [boundServerName(previous), boundServerName(current)];
  if (old === name || previous.config.name === current.config.name) return;
  out.note(
    plainLine(
      `The tools of this server are now named mcp_${name}_…. Policy rules, keys and clients that refer to mcp_${old}_… no longer match them.`,
    ),
  );
}

async function readRuntime(context: CommandContext, binding: Binding): Promise<Runtime | null> {
  const { package_id, package_version } = binding;
  const pack = await ifAllowed(findInstalledPackage(context, `${package_id}@${package_version}`));
  return pack === null ? null : pack.manifest.runtime;
}

function notAServerError(
  flag: (typeof SERVER_FLAGS)[number],
  { package_id, binding_id }: Binding,
): BackplaneError {
  const flag_name = flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return new BackplaneError("cli.usage", `--${flag_name} is for MCP servers, and ${package_id} is not one.`, {
    fix: `Set the configuration instead: backplane binding set ${binding_id} --config JSON`,
  });
}
