/** The flags that set settings of a binding, for `binding create`, `binding set` and `plugin install --bind`. */
import { posix } from "node:path";
import {
  BackplaneError,
  type BindingPatch,
  type BindingPolicy,
  codeOf,
  EXECUTION_CLASSES,
  type ExecutionClass,
  isObject,
  type JsonObject,
  type Mount,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import {
  type MountFlag,
  parseIdleTimeout,
  parseList,
  parseMount,
  parseSampling,
  parseServerName,
  parseSlotPair,
  parseVariable,
  percentage,
  wholeNumber,
} from "../command-line/parse-flags.ts";
import type { CommandContext } from "../context/context.ts";
import { resolveGatewayPath } from "../context/gateway-path.ts";
import { canAsk, readHidden } from "../terminal/prompts.ts";
import { readJsonObject } from "../terminal/read-input.ts";

/** Settings of an MCP server. They are fields of the configuration of its binding. */
interface ServerOptions {
  name?: string;
  args?: string[];
  env?: Record<string, string>;
  unsetEnv?: string[];
  /** In seconds; 0 for never. */
  idleTimeout?: number;
}

export interface BindingOptions extends ServerOptions {
  config?: string;
  secret?: Record<string, string>;
  class?: ExecutionClass;
  approval?: "always" | "never" | "default";
  timeout?: number;
  domains?: string[];
  percent?: number;
  capabilities?: string[];
  /** false with --no-mount. */
  mount?: MountFlag[] | false;
  hostTarget?: boolean;
  /** false with --no-sampling. */
  sampling?: NonNullable<BindingPolicy["sampling"]> | boolean;
}

export function addBindingFlags(command: Command): Command {
  return command
    .option("--config <json>", "configuration as JSON, or @file")
    .option("--secret <slot=NAME>", "bind a secret slot to a stored secret; repeatable", parseSlotPair)
    .option("--name <name>", "name of an MCP server; its tools are named mcp_NAME_TOOL", parseServerName)
    .option(
      "--env <NAME=VALUE>",
      `environment variable of an MCP server; \${SLOT} is replaced by the secret in that slot; repeatable`,
      parseVariable,
    )
    .option(
      "--idle-timeout <seconds>",
      "stop an MCP server after this time without a call; use never if its state must not be lost",
      parseIdleTimeout,
    )
    .addOption(
      new Option("--class <class>", "execution class; a lower one needs the admin token").choices(
        EXECUTION_CLASSES,
      ),
    )
    .addOption(
      new Option(
        "--approval <when>",
        "require approval for every call, for none (admins only), or as the policy decides",
      ).choices(["always", "never", "default"]),
    )
    .option("--timeout <ms>", "timeout of a call", wholeNumber("--timeout", 1, 86_400_000))
    .option("--domains <names>", "domains that the plugin may connect to, separated by commas", parseList)
    .option("--capabilities <names>", "capabilities of a side-process plugin, separated by commas", parseList)
    .option(
      "--mount <folder[:target][:rw]>",
      "mount a folder of the gateway's machine at TARGET (default: /data/NAME); repeatable; ~ and relative paths work only with the gateway of this $BACKPLANE_HOME",
      parseMount,
    )
    .option(
      "--host-target",
      "run tools that request the host on the gateway's machine, without a sandbox; admin token only",
    )
    .option("--no-host-target", "revoke --host-target")
    .option(
      "--sampling <tokens[:per-hour]>",
      "let an MCP server use the organization's model: tokens per request, requests per hour (default: 60)",
      parseSampling,
    )
    .option("--no-sampling", "revoke --sampling")
    .option("--percent <number>", "percentage of calls that go to this version", percentage("--percent"));
}

export interface BindingFlagSettings {
  config?: JsonObject;
  secrets?: Record<string, string>;
  rollout?: { traffic_percent: number };
  policy?: BindingPolicy;
}

type PolicyChanges = NonNullable<NonNullable<BindingPatch["changes"]>["policy"]>;

interface BindingFlagChanges extends Omit<BindingFlagSettings, "policy"> {
  policy?: PolicyChanges;
}

/**
 * Returns only the settings that were set by a flag. Server flags change single fields of the config from --config or,
 * without it, of `current`. Secret names are resolved to references. For an unknown secret, prompts for the value at a
 * terminal; without a terminal, throws.
 */
export async function readBindingSettings(
  context: CommandContext,
  options: BindingOptions,
  current: JsonObject = {},
): Promise<BindingFlagSettings> {
  const { policy, ...settings } = await readBindingChanges(context, options, current);
  if (policy === undefined) return settings;
  const chosen = Object.entries(policy).filter(([, value]) => value !== null);
  return { ...settings, policy: Object.fromEntries(chosen) as BindingPolicy };
}

/** Like `readBindingSettings`, but with null for each policy field that a flag removes. */
export async function readBindingChanges(
  context: CommandContext,
  options: BindingOptions,
  current: JsonObject,
): Promise<BindingFlagChanges> {
  const policy = policyFromFlags(context, options);
  const config =
    options.config === undefined ? null : await readJsonObject(context.io, "--config", options.config);
  const server = serverConfig(options, config ?? current);
  return {
    ...(config === null && server === null ? {} : { config: server ?? config! }),
    ...(options.secret === undefined ? {} : { secrets: await resolveSecretRefs(context, options.secret) }),
    ...(options.percent === undefined ? {} : { rollout: { traffic_percent: options.percent } }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
  };
}

function policyFromFlags(context: CommandContext, options: BindingOptions): PolicyChanges {
  return {
    ...(options.class === undefined ? {} : { class: options.class }),
    ...(options.approval === undefined
      ? {}
      : { approval: options.approval === "default" ? null : options.approval }),
    ...(options.timeout === undefined ? {} : { timeout_ms: options.timeout }),
    ...(options.domains === undefined ? {} : { allowed_domains: options.domains }),
    ...(options.capabilities === undefined ? {} : { capabilities: options.capabilities }),
    ...(options.mount === undefined
      ? {}
      : { mounts: (options.mount || []).map((mount) => resolveMount(context, mount)) }),
    ...(options.hostTarget === undefined ? {} : { host_target: options.hostTarget }),
    ...samplingPolicy(options.sampling),
  };
}

function resolveMount(context: CommandContext, { folder, target, writable }: MountFlag): Mount {
  const source = resolveGatewayPath(context, folder, `--mount ${folder}`);
  return { source, target: target ?? posix.join("/data", posix.basename(source)), writable };
}

function samplingPolicy(sampling: BindingOptions["sampling"]): PolicyChanges {
  if (typeof sampling === "object") return { sampling };
  return sampling === false ? { sampling: null } : {};
}

function serverConfig(
  { name, args, env, unsetEnv, idleTimeout }: ServerOptions,
  previous: JsonObject,
): JsonObject | null {
  if ([name, args, env, unsetEnv, idleTimeout].every((value) => value === undefined)) return null;
  const previous_variables = isObject(previous.env) ? Object.entries(previous.env) : [];
  const variables = {
    ...Object.fromEntries(previous_variables.filter(([key]) => !unsetEnv?.includes(key))),
    ...env,
  };
  return {
    ...previous,
    ...(name === undefined ? {} : { name }),
    ...(args === undefined ? {} : { args }),
    ...(env === undefined && unsetEnv === undefined ? {} : { env: variables }),
    ...(idleTimeout === undefined ? {} : { idle_timeout_s: idleTimeout }),
  };
}

async function resolveSecretRefs(
  context: CommandContext,
  names: Record<string, string>,
): Promise<Record<string, string>> {
  const refs: Record<string, string> = {};
  for (const [slot, name] of Object.entries(names)) {
    refs[slot] = name.startsWith("secret://") ? name : await findSecretRef(context, name);
  }
  return refs;
}

/** Resolves the name of a secret. The gateway's error does not contain the name, so the name is added here. */
async function findSecretRef(context: CommandContext, name: string): Promise<string> {
  try {
    return (await context.client().secrets.get(name)).ref;
  } catch (error) {
    if (codeOf(error) !== "secret.not_found") throw error;
    if (canAsk(context.io, context.flags)) return await promptAndStoreSecret(context, name);
    throw new BackplaneError("secret.not_found", `Secret ${name} does not exist.`, {
      fix: `Store it: backplane secret set ${name}. List existing ones: backplane secret list`,
    });
  }
}

/** Asks for the value of a secret that does not exist yet; the terminal does not show it. */
async function promptAndStoreSecret(context: CommandContext, name: string): Promise<string> {
  const value = (
    await readHidden(context.io, `Secret ${name} does not exist yet. Value (not shown): `)
  ).trim();
  if (value === "") throw new BackplaneError("cli.usage", `No value for the secret ${name} was entered.`);
  return (await context.client().secrets.put(name, value)).ref;
}
