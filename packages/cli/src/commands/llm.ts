/** `llm`: the models that the model endpoints offer, and the records of calls to these endpoints. */
import type { LlmCall } from "@backplane/contract";
import type { Command } from "commander";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { type PageFlags, pageFlags, showPage } from "../context/page.ts";
import { fields, table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addLlmCommands(program: Command, toAction: ToAction): void {
  const llm = program.command("llm").description("The model endpoints for Codex, OpenCode and Claude Code.");
  llm.command("models").description("List the models that your credential may use.").action(toAction(models));
  pageFlags(llm.command("calls").description("List calls to the model endpoints, newest first."))
    .option("--run <id>", "only calls of this run")
    .option("--invocation <id>", "only calls with the delegated token of this invocation")
    .action(toAction(calls));
  llm.command("show <id>").description("Show the record of a call.").action(toAction(show));
}

async function models(context: CommandContext): Promise<undefined> {
  const found = await context.client().llm.models();
  context.out.data(found, () =>
    table(
      context.out,
      ["MODEL", "NAME"],
      found.map(({ id, display_name }) => [plainLine(id), plainLine(display_name)]),
    ),
  );
  return undefined;
}

async function calls(
  context: CommandContext,
  { run, invocation, ...page }: PageFlags & { run?: string; invocation?: string },
): Promise<undefined> {
  const found = await context.client().llm.calls({
    ...page,
    ...(run === undefined ? {} : { run_id: run }),
    ...(invocation === undefined ? {} : { invocation_id: invocation }),
  });
  showPage(context, found, ["ID", "STATUS", "MODEL", "BY", "TOKENS", "MS"], (item) => [
    item.id,
    item.status,
    plainLine(`${item.provider}/${item.model}`),
    item.actor,
    tokens(item) ?? "",
    item.duration_ms === null ? "" : String(item.duration_ms),
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const found = await context.client().llm.call(id);
  context.out.data(found, () =>
    fields({
      id: found.id,
      status: found.status,
      protocol: found.stream ? `${found.protocol}, streamed` : found.protocol,
      model: plainLine(`${found.provider}/${found.model}`),
      by: found.actor,
      key: found.key_id ?? undefined,
      invocation: found.invocation_id ?? undefined,
      run: found.run_id ?? undefined,
      execution: found.execution_id ?? undefined,
      started: found.started_at,
      "first part": found.first_part_ms === null ? undefined : `${found.first_part_ms} ms`,
      duration: found.duration_ms === null ? undefined : `${found.duration_ms} ms`,
      tokens: tokens(found),
      "stop reason": found.stop_reason ?? undefined,
      error: found.error === null ? undefined : `${found.error.code}: ${plainLine(found.error.message)}`,
    }),
  );
  return undefined;
}

function tokens({ usage }: LlmCall): string | undefined {
  if (usage === null) return undefined;
  const cached = usage.input_cache_read === 0 ? "" : ` (${usage.input_cache_read} cached)`;
  return `${usage.input}${cached} in, ${usage.output} out`;
}
