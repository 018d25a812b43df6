/** `delivery`: deliveries of events to hooks. `hook`: tries, pauses and resumes a hook. */
import {
  DELIVERY_STATUSES,
  type Delivery,
  type DeliveryStatus,
  SEMANTIC_EVENTS,
  type SemanticEventType,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { findBindingId } from "../bindings/find-binding.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../context/page.ts";
import { fields } from "../terminal/output.ts";
import { exactJson, plainLine } from "../terminal/plain-text.ts";

export function addDeliveryCommands(program: Command, toAction: ToAction): void {
  const delivery = program.command("delivery").description("Deliveries of events to hooks.");
  addPageFlags(delivery.command("list").description("List deliveries, newest first."))
    .addOption(new Option("--status <status>", "only deliveries with this status").choices(DELIVERY_STATUSES))
    .option("--binding <binding>", "only deliveries to this hook")
    .action(toAction(list));
  delivery.command("show <id>").description("Show a delivery with its event.").action(toAction(show));
  delivery
    .command("replay <id>")
    .description("Deliver a dead letter again, under the same delivery_id.")
    .action(
      toAction(async (context, _options: object, id: string) =>
        report(context, await context.client().deliveries.replay(id)),
      ),
    );
  delivery
    .command("discard <id>")
    .description("Discard a pending or dead delivery.")
    .action(
      toAction(async (context, _options: object, id: string) =>
        report(context, await context.client().deliveries.discard(id)),
      ),
    );
  const hook = program.command("hook").description("Try, pause and resume hooks.");
  hook
    .command("test <binding>")
    .description("Deliver an example event to a hook and show the outcome.")
    .addOption(
      new Option(
        "--type <type>",
        "type of the event (default: the first type that the hook subscribes to)",
      ).choices(SEMANTIC_EVENTS),
    )
    .action(toAction(test));
  hook
    .command("pause <binding>")
    .description("Keep events for the hook until it is resumed.")
    .action(toAction((context, _options: object, name: string) => setPaused(context, name, true)));
  hook
    .command("resume <binding>")
    .description("Deliver the events that were kept, and new ones.")
    .action(toAction((context, _options: object, name: string) => setPaused(context, name, false)));
}

async function list(
  context: CommandContext,
  { status, binding, ...page }: PageFlags & { status?: DeliveryStatus; binding?: string },
): Promise<undefined> {
  const deliveries = await context.client().deliveries.list({
    ...page,
    ...(status === undefined ? {} : { status }),
    ...(binding === undefined ? {} : { binding_id: await findBindingId(context, binding) }),
  });
  showPage(context, deliveries, ["ID", "STATUS", "EVENT", "HOOK", "ATTEMPT", "ERROR"], (item) => [
    item.id,
    item.test ? `${item.status} (test)` : item.status,
    typeof item.event.type === "string" ? item.event.type : "",
    item.binding_id,
    `${item.attempt}/${item.max_attempts}`,
    plainLine(item.error ?? ""),
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, id: string): Promise<undefined> {
  return report(context, await context.client().deliveries.get(id));
}

function report({ out }: CommandContext, delivery: Delivery): undefined {
  out.data(delivery, () =>
    fields({
      id: delivery.id,
      status: delivery.test ? `${delivery.status} (test)` : delivery.status,
      hook: delivery.binding_id,
      attempt: `${delivery.attempt} of ${delivery.max_attempts}`,
      "next attempt": delivery.next_attempt_at ?? undefined,
      ended: delivery.ended_at ?? undefined,
      error: delivery.error ?? undefined,
      invocation: delivery.invocation_id ?? undefined,
      event: exactJson(delivery.event),
    }),
  );
  return undefined;
}

/**
 * `hook test` polls for the outcome at this interval, at most this many times. A paused hook receives the event after a
 * resume.
 */
const POLL_MS = 200;
const MAX_POLLS = 150;

async function test(
  context: CommandContext,
  { type }: { type?: SemanticEventType },
  name: string,
): Promise<undefined> {
  const { deliveries } = context.client();
  const id = await findBindingId(context, name);
  let delivery = await deliveries.test(id, type === undefined ? {} : { type });
  for (let polls = 0; polls < MAX_POLLS && isOpen(delivery); polls++) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    delivery = await deliveries.get(delivery.id);
  }
  return report(context, delivery);
}

function isOpen({ status }: Delivery): boolean {
  return status === "pending" || status === "running";
}

async function setPaused(context: CommandContext, name: string, paused: boolean): Promise<undefined> {
  const { deliveries } = context.client();
  const id = await findBindingId(context, name);
  const binding = await (paused ? deliveries.pause(id) : deliveries.resume(id));
  context.out.data(binding, () => `The deliveries to ${name} are ${paused ? "paused" : "resumed"}.`);
  return undefined;
}
