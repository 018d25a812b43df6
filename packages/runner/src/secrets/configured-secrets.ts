/**
 * Secrets that the configuration of an MCP server refers to as `${slot}`, in its environment or its arguments. They are
 * filled in at launch and stored nowhere. Every user of the machine can read the arguments of a process, but only
 * its own user can read its environment. A Node program therefore receives the secrets as variables and fills in its
 * arguments itself.
 */
import { BackplaneError, fillPlaceholders, isObject, placeholderSlots } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";

type ConfiguredRequest = Pick<ProcessRequest, "package" | "context" | "binding_id">;

const VARIABLE_PREFIX = "BACKPLANE_ARGUMENT_";

/** Runs before the server's program. Programs that the server starts must not inherit the variables. */
const FILL_ARGUMENTS = `
const { argv, env } = process;
const filled = (whole, dollar, name) =>
  dollar === "" ? (env["${VARIABLE_PREFIX}" + name.toLowerCase()] ?? whole) : whole.slice(1);
for (let at = 2; at < argv.length; at++) argv[at] = argv[at].replace(/(\\$?)\\$\\{([a-z][a-z0-9_]*)\\}/gi, filled);
for (const name of Object.keys(env)) if (name.startsWith("${VARIABLE_PREFIX}")) delete env[name];
delete env.NODE_OPTIONS;
`;

/** The secrets that the configuration refers to, by slot; a slot without a secret is left out. */
export function configuredSecrets(request: ConfiguredRequest): Record<string, string> {
  const { secrets } = request.context;
  const slots = configuredSlots(request).filter((slot) => secrets[slot] !== undefined);
  return Object.fromEntries(slots.map((slot) => [slot, secrets[slot]!]));
}

/** The variables that carry these secrets into the process. */
export function configuredEnvironment(request: ConfiguredRequest): Record<string, string> {
  const { args, env } = request.context.config;
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(isObject(env) ? env : {}))
    if (typeof value === "string" && placeholderSlots(value).length > 0)
      variables[name] = fillSecrets(value, request);
  if (!fillsOwnArguments(request)) return variables;
  for (const slot of placeholderSlots(args))
    variables[`${VARIABLE_PREFIX}${slot}`] = request.context.secrets[slot] ?? "";
  variables.NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(FILL_ARGUMENTS)}`;
  return variables;
}

/**
 * True for a Node program with secrets in its arguments and no NODE_OPTIONS of its own, because the code that fills in
 * the arguments is passed in that variable.
 */
export function fillsOwnArguments({ package: { runtime }, context }: ConfiguredRequest): boolean {
  const { args, env } = context.config;
  if (placeholderSlots(args).length === 0) return false;
  const options = runtime.env.NODE_OPTIONS ?? (isObject(env) ? env.NODE_OPTIONS : undefined);
  return runtime.entrypoint[0] === "node" && options === undefined;
}

export function fillSecrets(text: string, { context }: ConfiguredRequest): string {
  return fillPlaceholders(text, (slot) => context.secrets[slot] ?? "");
}

/** Throws launch_failed for a slot without a secret. */
export function requireConfiguredSecrets(request: ConfiguredRequest): void {
  const missing = configuredSlots(request).find((slot) => request.context.secrets[slot] === undefined);
  if (missing === undefined) return;
  throw new BackplaneError(
    "launch_failed",
    `The configuration of the binding refers to the secret slot ${missing}, which is not bound.`,
    { fix: `backplane binding set ${request.binding_id} --secret ${missing}=NAME` },
  );
}

export function configuredSlots({
  package: { runtime },
  context,
}: Omit<ConfiguredRequest, "binding_id">): string[] {
  if (runtime.protocol !== "mcp.stdio") return [];
  const { args = null, env = null } = context.config;
  return [...new Set(placeholderSlots([args, env]))];
}
