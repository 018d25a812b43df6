/** The flags that shape a binding, the same for `binding create`, `binding set` and `plugin install --bind`. */
import {
  BackplaneError,
  type BindingPolicy,
  codeOf,
  EXECUTION_CLASSES,
  type ExecutionClass,
  type JsonObject,
  type Mount,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import {
  listOf,
  mountOf,
  percentage,
  samplingOf,
  slotPair,
  wholeNumber,
} from "../command-line/parse-flags.ts";
import type { Context } from "../context/context.ts";
import { readJsonObject } from "../terminal/read-input.ts";

export interface BindingOptions {
  config?: string;
  secret?: Record<string, string>;
  class?: ExecutionClass;
  approval?: "always" | "never";
  timeout?: number;
  domains?: string[];
  percent?: number;
  capabilities?: string[];
  /** false: none any more. */
  mount?: Mount[] | false;
  hostTarget?: boolean;
  /** false: none. */
  sampling?: NonNullable<BindingPolicy["sampling"]> | boolean;
}

export function bindingFlags(command: Command): Command {
  return command
    .option("--config <json>", "configuration: JSON, or @file")
    .option("--secret <slot=NAME>", "give a slot a stored secret; may be repeated", slotPair)
    .addOption(
      new Option("--class <class>", "how it runs; lowering needs the admin token").choices(EXECUTION_CLASSES),
    )
    .addOption(new Option("--approval <when>", "ask a person before each call").choices(["always", "never"]))
    .option("--timeout <ms>", "longest run", wholeNumber("--timeout", 1, 86_400_000))
    .option("--domains <names>", "names it may reach, separated by commas", listOf)
    .option("--capabilities <names>", "what a side-process plugin may ask for, separated by commas", listOf)
    .option(
      "--mount <folder[:target][:rw]>",
      "show it a folder of the gateway's machine, at TARGET (default /data/NAME); may be repeated",
      mountOf,
    )
    .option(
      "--host-target",
      "let tools that ask for it run on the gateway's machine itself; admin token only",
    )
    .option("--no-host-target", "take that back")
    .option(
      "--sampling <tokens[:per-hour]>",
      "let an MCP server ask the org's model, at most so many tokens a request and so often (default 60)",
      samplingOf,
    )
    .option("--no-sampling", "take that back")
    .option("--percent <number>", "share of the calls that go to this version", percentage("--percent"));
}

export interface BindingParts {
  config?: JsonObject;
  secrets?: Record<string, string>;
  rollout?: { traffic_percent: number };
  policy?: BindingPolicy;
}

/** Only what a flag named. Secret names become references, and one that does not exist is found here. */
export async function bindingParts(context: Context, options: BindingOptions): Promise<BindingParts> {
  const policy = policyOf(options);
  return {
    ...(options.config === undefined
      ? {}
      : { config: await readJsonObject(context.io, "--config", options.config) }),
    ...(options.secret === undefined ? {} : { secrets: await secretRefs(context, options.secret) }),
    ...(options.percent === undefined ? {} : { rollout: { traffic_percent: options.percent } }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
  };
}

/** secrets and policy are replaced whole by a patch, so what no flag names is kept from the present binding. */
export function mergeParts(
  present: { secrets: Record<string, string>; policy: BindingPolicy },
  parts: BindingParts,
): BindingParts {
  return {
    ...parts,
    ...(parts.secrets === undefined ? {} : { secrets: { ...present.secrets, ...parts.secrets } }),
    ...(parts.policy === undefined ? {} : { policy: { ...present.policy, ...parts.policy } }),
  };
}

function policyOf(options: BindingOptions): BindingPolicy {
  return {
    ...(options.class === undefined ? {} : { class: options.class }),
    ...(options.approval === undefined ? {} : { approval: options.approval }),
    ...(options.timeout === undefined ? {} : { timeout_ms: options.timeout }),
    ...(options.domains === undefined ? {} : { allowed_domains: options.domains }),
    ...(options.capabilities === undefined ? {} : { capabilities: options.capabilities }),
    ...(options.mount === undefined ? {} : { mounts: options.mount || [] }),
    ...(options.hostTarget === undefined ? {} : { host_target: options.hostTarget }),
    ...samplingPolicy(options.sampling),
  };
}

/** Left out of a patch it stays; taken back it is a field without a value, which a merge drops. */
function samplingPolicy(sampling: BindingOptions["sampling"]): BindingPolicy {
  if (typeof sampling === "object") return { sampling };
  return sampling === false ? ({ sampling: undefined } as unknown as BindingPolicy) : {};
}

async function secretRefs(context: Context, names: Record<string, string>): Promise<Record<string, string>> {
  const refs: Record<string, string> = {};
  for (const [slot, name] of Object.entries(names)) {
    refs[slot] = name.startsWith("secret://") ? name : await refOf(context, name);
  }
  return refs;
}

/** The gateway names nothing that it does not find; here it is the caller's own word. */
async function refOf(context: Context, name: string): Promise<string> {
  try {
    return (await context.client().secrets.get(name)).ref;
  } catch (error) {
    if (codeOf(error) !== "secret.not_found") throw error;
    throw new BackplaneError("secret.not_found", `There is no secret ${name}.`, {
      fix: `Store it: backplane secret set ${name}; or name one of: backplane secret list`,
    });
  }
}
