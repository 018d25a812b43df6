/**
 * `invoke`: makes a call and waits for its result. The invocation is recorded before the wait, so Ctrl-C can cancel it
 * and an approval has an id. Exit code: 0 succeeded, 1 failed, 3 denied, 6 the package's files were changed, 124
 * timeout, 130 interrupted.
 */
import {
  BackplaneError,
  codeOf,
  type Invocation,
  type InvokeBody,
  isObject,
  type Json,
  specificFix,
} from "@backplane/contract";
import type { Command } from "commander";
import { ifAllowed } from "../../bindings/report-tools.ts";
import { serverHints } from "../../bindings/server-hints.ts";
import { type ErrorReport, errorLines } from "../../command-line/error-report.ts";
import { EXIT } from "../../command-line/exit-codes.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { similarNames } from "../../command-line/similar-names.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, listAll, type PageFlags } from "../../context/page.ts";
import { plainLine, plainText } from "../../terminal/plain-text.ts";
import { parseValue, readJson } from "../../terminal/read-input.ts";
import { findCurrentNames } from "./current-names.ts";
import { type FollowedInvocation, followInvocation } from "./follow-invocation.ts";
import { printInvocations } from "./invocation.ts";
import { invocationExit, invocationResultText, refusedLines, scratchHint } from "./invocation-text.ts";

interface InvokeOptions extends PageFlags {
  input?: string;
  package?: string;
  binding?: string;
  session?: string;
  timeout?: number;
  wait: boolean;
  follow?: boolean;
  list?: boolean;
}

const EXAMPLES = `
Examples:
  backplane invoke jira_search --input '{"query":"open bugs"}'
  backplane invoke jira_search --input @query.json --json
  echo '{"text":"hi"}' | backplane invoke notify --input - --timeout 5000
  backplane invoke jira_search query='open bugs' limit=5 fields='["key"]'
  backplane invoke --list
`;

export function addInvokeCommand(program: Command, toAction: ToAction): void {
  const invoke = program
    .command("invoke [export] [fields...]")
    .description("Run an export and print its result. Each KEY=VALUE of FIELDS sets a field of the input.")
    .option("--input <json>", "input as JSON, @file, or - for stdin")
    .option("--package <id>", "package of the export, if several have one of that name")
    .option("--binding <id>", "use this binding")
    .option("--session <id>", "on behalf of this session")
    .option(
      "--timeout <ms>",
      "timeout of the call, and of the wait for an approval",
      wholeNumber("--timeout", 1, 86_400_000),
    )
    .option("--no-wait", "print the invocation id and do not wait")
    .option("--follow", "print plugin events even if stderr is not a terminal")
    .option("--list", "list recent invocations instead")
    .addHelpText("after", EXAMPLES);
  addPageFlags(invoke).action(toAction(runInvoke));
}

async function runInvoke(
  context: CommandContext,
  options: InvokeOptions,
  export_id: string | undefined,
  fields: string[],
): Promise<number> {
  if (options.list === true) {
    await printInvocations(context, {
      ...options,
      ...(export_id === undefined ? {} : { export: export_id }),
    });
    return EXIT.ok;
  }
  const body = await buildBody(context, options, export_id, fields);
  const client = context.client();
  const { out } = context;
  const invoke = () =>
    client.invocations.invoke(body).catch(async (error: unknown) => {
      throw addSchemaHint(export_id, await addExportHint(context, export_id, error));
    });
  if (!options.wait) {
    const started = await invoke();
    out.data(started, () => started.id);
    const awaits_approval = started.status === "waiting_approval" && started.approval_id !== null;
    if (awaits_approval)
      out.note(`Awaiting approval: backplane approve allow ${started.approval_id} (or deny)`);
    out.note(
      `${awaits_approval ? "Then" : "Started. To see the call"}: backplane invocation show ${started.id}`,
    );
    return EXIT.ok;
  }
  const followed = await followInvocation(context, invoke, {
    events: options.follow === true || (context.io.stderr.isTTY === true && !out.quiet),
    ...(options.timeout === undefined ? {} : { approval_wait_ms: options.timeout }),
  });
  // The result of an interrupted call only says that it was cancelled, as the error does.
  out.data(followed.invocation, () =>
    followed.gave_up === "interrupted" && followed.invocation.status === "cancelled"
      ? ""
      : invocationResultText(followed.invocation),
  );
  return report(context, followed);
}

/**
 * Adds the current name of a renamed tool, or otherwise the names of tools that resemble the unknown one. Without any,
 * explains that the export is not bound or that the name is that of a package.
 */
async function addExportHint(
  context: CommandContext,
  name: string | undefined,
  error: unknown,
): Promise<unknown> {
  if (name === undefined) return error;
  const code = codeOf(error);
  // The name of a package is not a valid name of an export.
  if (code === "request.invalid" && name.includes("/"))
    return (await unboundExportError(context, name)) ?? error;
  if (code !== "export.not_found") return error;
  const tools = (await ifAllowed(context.client().catalog.list({ all: true }))) ?? [];
  const renamed = await findCurrentNames(context, name, tools);
  const similar =
    renamed.length > 0
      ? renamed
      : similarNames(
          name,
          tools.map((tool) => tool.name).filter((other) => other !== name),
        );
  if (similar.length === 0) return (await unboundExportError(context, name)) ?? error;
  const message = `${(error as Error).message} Did you mean ${similar.join(" or ")}?`;
  return new BackplaneError("export.not_found", message, {
    fix: `backplane invoke ${similar[0]}`,
    cause: error,
  });
}

/** Says where the schema of an invalid input is, unless the gateway suggests something more specific. */
function addSchemaHint(name: string | undefined, error: unknown): unknown {
  if (codeOf(error) !== "input.invalid" || name === undefined) return error;
  const { message, details } = error as BackplaneError;
  if (specificFix(error as BackplaneError) !== undefined) return error;
  return new BackplaneError("input.invalid", message, {
    ...(details === undefined ? {} : { details }),
    fix: `Correct the input at the paths named above. Its schema: backplane tool show ${name}`,
    cause: error,
  });
}

/**
 * Explains how to bind an export of an installed package, or that the name is that of a package and not of an export.
 * Null if neither applies.
 */
async function unboundExportError(context: CommandContext, name: string): Promise<BackplaneError | null> {
  const { packages, bindings } = context.client();
  const bound = await ifAllowed(listAll((page) => bindings.list(page)));
  if (bound === null || bound.some(({ export_id }) => export_id === name)) return null;
  const installed = (await ifAllowed(listAll((page) => packages.list(page)))) ?? [];
  const named_package = installed.find(({ package_id }) => package_id === name);
  if (named_package !== undefined) {
    const exports = named_package.manifest.exports.map(({ id }) => id);
    const fix = exports.length === 0 ? `backplane plugin info ${name}` : `backplane invoke ${exports[0]}`;
    return new BackplaneError("export.not_found", `${name} is a package; specify one of its exports.`, {
      fix,
    });
  }
  const unbound = installed.find(({ manifest }) => manifest.exports.some(({ id }) => id === name));
  if (unbound === undefined) return null;
  const version = `${unbound.package_id}@${unbound.version}`;
  return new BackplaneError(
    "export.not_found",
    `${version} has an export named ${name}, but it is not bound.`,
    {
      fix: `backplane binding create ${version} ${name}`,
    },
  );
}

/** Prints the error of a failed call and hints on stderr, and returns the exit code. The record is already printed. */
function report(context: CommandContext, { invocation, gave_up }: FollowedInvocation): number {
  // Plugins rarely report why a connection failed; the record does.
  const refused = refusedLines(invocation);
  if (refused.length > 0) context.out.note(["Refused connections:", ...refused].join("\n  "));
  // At a terminal, where both streams are read together, a message that was the result is not repeated.
  const printed =
    context.io.stdout.isTTY === true && !context.out.json ? invocationResultText(invocation) : "";
  const failure = describeFailure(invocation, gave_up, printed);
  if (failure === null) return EXIT.ok;
  context.io.stderr.write(`${errorLines(failure)}\n`);
  const stderr = findUnprintedStderr(invocation);
  if (stderr !== null) context.out.note(`stderr of the plugin:\n${plainText(stderr)}`);
  const hint = scratchHint(invocation);
  if (hint !== null) context.out.note(hint);
  if (invocation.export_id.startsWith("mcp_")) {
    const text = JSON.stringify([invocation.tool_result, invocation.error]);
    for (const hint of serverHints(text, invocation.binding_id)) context.out.note(plainLine(hint));
  }
  if (gave_up === "interrupted") return EXIT.interrupted;
  return gave_up === "approval_wait" ? EXIT.timeout : invocationExit(invocation);
}

/**
 * Null if there is no stderr, or if stderr repeats the message, as the stack trace of an uncaught error does;
 * `invocation show` prints it.
 */
function findUnprintedStderr(invocation: Invocation): string | null {
  const stderr = invocation.tool_result?.failure?.stderr;
  if (stderr === undefined) return null;
  const printed_texts = [invocationResultText(invocation), invocation.error?.message ?? ""];
  return printed_texts.some((text) => text.trim() !== "" && stderr.includes(text.trim())) ? null : stderr;
}

function describeFailure(
  invocation: Invocation,
  gave_up: FollowedInvocation["gave_up"],
  printed: string,
): ErrorReport | null {
  if (invocationExit(invocation) === EXIT.ok) return null;
  if (gave_up === "approval_wait") {
    return {
      code: "timeout",
      message: `Approval ${invocation.approval_id} was not answered in time; ${invocation.id} was cancelled before it ran.`,
      fix: "Use a longer --timeout, or --no-wait, and answer with `backplane approve allow`.",
    };
  }
  if (gave_up === "interrupted" && invocation.status === "cancelled")
    return {
      code: "cancelled",
      message: `The command was interrupted, and the call was cancelled. (${invocation.id})`,
    };
  const { code, message, details } = invocation.error ?? {
    code: "plugin_failed",
    message: "The plugin marked its result as an error.",
  };
  const fix = typeof details?.fix === "string" ? { fix: details.fix } : {};
  const text = message === printed ? "See its message above." : message;
  return { code, message: `${text} (${invocation.id})`, details, ...fix };
}

async function buildBody(
  context: CommandContext,
  options: InvokeOptions,
  export_id: string | undefined,
  fields: readonly string[],
): Promise<InvokeBody> {
  if (export_id === undefined && options.binding === undefined) {
    throw new BackplaneError("cli.usage", "No export or binding was specified.", {
      fix: "backplane invoke EXPORT --input '{}'",
    });
  }
  return {
    ...(export_id === undefined ? {} : { export_id }),
    ...(options.binding === undefined ? {} : { binding_id: options.binding }),
    ...(options.package === undefined ? {} : { package_id: options.package }),
    ...(options.session === undefined ? {} : { session_id: options.session }),
    ...(options.timeout === undefined ? {} : { timeout_ms: options.timeout }),
    input: await buildInput(context, options.input, fields),
  };
}

/** A value that is JSON keeps its type; any other is text. Fields override those of --input. */
async function buildInput(
  context: CommandContext,
  json: string | undefined,
  fields: readonly string[],
): Promise<Json> {
  const input = json === undefined ? {} : await readJson(context.io, "--input", json);
  if (fields.length === 0) return input;
  if (!isObject(input))
    throw new BackplaneError("cli.usage", "KEY=VALUE needs an input that is an object.", {
      fix: "Put all fields into --input, or omit --input.",
    });
  const entries = fields.map((field) => {
    const at = field.indexOf("=");
    if (at > 0) return [field.slice(0, at), parseValue(field.slice(at + 1))] as const;
    throw new BackplaneError("cli.usage", `${field} is not KEY=VALUE.`, {
      fix: `backplane invoke EXPORT ${field}=VALUE, or --input '{"${field}": …}'`,
    });
  });
  return { ...input, ...Object.fromEntries(entries) };
}
