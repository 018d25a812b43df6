/** `llm`: the models that the model endpoints offer, and the records of calls to these endpoints. */
import type { LlmCall } from "@backplane/contract";
import type { Command } from "commander";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../context/page.ts";
import { fields, table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function addLlmCommands(program: Command, toAction: ToAction): void {
  const llm = program.command("llm").description("The model endpoints for Codex, OpenCode and Claude Code.");
  llm.command("models").description("List the models that your credential may use.").action(toAction(models));
  addPageFlags(llm.command("calls").description("List calls to the model endpoints, newest first."))
    .option("--run <id>", "only calls of this run")
    .option("--invocation <id>", "only calls with the delegated token of this invocation")
    .action(toAction(calls));
  llm.command("show <id>").description("Show the record of a call.").action(toAction(show));
}

async function models(context: CommandContext): Promise<undefined> {
  const models = await context.client().llm.models();
  context.out.data(models, () =>
    table(
      context.out,
      ["MODEL", "NAME"],
      models.map(({ id, display_name }) => [plainLine(id), plainLine(display_name)]),
    ),
  );
  return undefined;
}

async function calls(
  context: CommandContext,
  { run, invocation, ...page }: PageFlags & { run?: string; invocation?: string },
): Promise<undefined> {
  const calls = await context.client().llm.calls({
    ...page,
    ...(run === undefined ? {} : { run_id: run }),
    ...(invocation === undefined ? {} : { invocation_id: invocation }),
  });
  showPage(context, calls, ["ID", "STATUS", "MODEL", "CALLER", "TOKENS", "MS"], (item) => [
    item.id,
    item.status,
    plainLine(`${item.provider}/${item.model}`),
    item.actor,
    tokensText(item) ?? "",
    item.duration_ms === null ? "" : String(item.duration_ms),
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  const call = await context.client().llm.call(id);
  context.out.data(call, () =>
    fields({
      id: call.id,
      status: call.status,
      protocol: call.stream ? `${call.protocol}, streamed` : call.protocol,
      model: plainLine(`${call.provider}/${call.model}`),
      caller: call.actor,
      key: call.key_id ?? undefined,
      invocation: call.invocation_id ?? undefined,
      run: call.run_id ?? undefined,
      execution: call.execution_id ?? undefined,
      started: call.started_at,
      "first part": call.first_part_ms === null ? undefined : `${call.first_part_ms} ms`,
      duration: call.duration_ms === null ? undefined : `${call.duration_ms} ms`,
      tokens: tokensText(call),
      "stop reason": call.stop_reason ?? undefined,
      error: call.error === null ? undefined : `${call.error.code}: ${plainLine(call.error.message)}`,
    }),
  );
  return undefined;
}

function tokensText({ usage }: LlmCall): string | undefined {
  if (usage === null) return undefined;
  const cached = usage.input_cache_read === 0 ? "" : ` (${usage.input_cache_read} cached)`;
  return `${usage.input}${cached} in, ${usage.output} out`;
}
