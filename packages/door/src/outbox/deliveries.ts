/**
 * Deliveries as clients see them. Clients list deliveries, replay dead ones, discard pending and dead ones, and test a
 * hook with an example event.
 */

import {
  BackplaneError,
  type Delivery,
  type DeliveryStatus,
  type HookTest,
  type JsonObject,
  type SemanticEventType,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  type ChangeRecords,
  type Changes,
  type Job,
  type JobState,
  type Kernel,
  type KernelDeps,
  requireOperator,
} from "@backplane/ports";
import { DELIVERIES_QUEUE, type DeliveryPayload } from "./deliver.ts";

const STATUS_BY_STATE = {
  ready: "pending",
  leased: "running",
  done: "delivered",
  dead: "dead",
  discarded: "discarded",
} as const satisfies Record<JobState, DeliveryStatus>;

const STATE_BY_STATUS = Object.fromEntries(
  Object.entries(STATUS_BY_STATE).map(([state, status]) => [status, state]),
) as Record<DeliveryStatus, JobState>;

export function createDeliveries(
  { store, clock, ids }: Pick<KernelDeps, "store" | "clock" | "ids">,
  changes: Pick<Changes, "emit">,
): Kernel["deliveries"] {
  async function find(caller: Caller, id: string): Promise<Job> {
    const job = await store.jobs.get(id);
    if (job === null || job.queue !== DELIVERIES_QUEUE || !isVisible(caller, job)) {
      throw new BackplaneError("delivery.not_found", `There is no delivery ${id}.`);
    }
    return job;
  }

  async function changeDelivery(
    caller: Caller,
    id: string,
    action: "replay" | "discard",
    write: (now: number, records: ChangeRecords) => Promise<boolean>,
  ): Promise<Delivery> {
    requireOperator(caller, `${action} deliveries`);
    const job = await find(caller, id);
    const now = clock.now();
    const audit = {
      id: ids.next("audit"),
      at: now,
      scope: job.scope ?? caller.scope,
      actor: caller.actor,
      action: `delivery.${action}`,
      subject: id,
      details: { binding_id: job.lane, attempt: job.attempt },
    };
    if (!(await write(now, { audit }))) {
      const { status } = deliveryOf(await find(caller, id));
      const message = `The delivery ${id} is ${status} and cannot be ${action}ed.`;
      throw new BackplaneError("delivery.conflict", message, { details: { status } });
    }
    changes.emit("deliveries.added", {});
    return deliveryOf(await find(caller, id));
  }

  return {
    async list(caller, { status, binding_id }, page) {
      requireOperator(caller, "read deliveries");
      const filter = {
        ...(status === undefined ? {} : { state: STATE_BY_STATUS[status] }),
        ...(binding_id === undefined ? {} : { lane: binding_id }),
      };
      const { items, next } = await store.jobs.list(caller.scope, filter, page);
      return { items: items.map(deliveryOf), next };
    },
    async get(caller, id) {
      requireOperator(caller, "read deliveries");
      return deliveryOf(await find(caller, id));
    },
    replay: (caller, id) =>
      changeDelivery(caller, id, "replay", (now, records) => store.jobs.replay(id, now, records)),
    discard: (caller, id) =>
      changeDelivery(caller, id, "discard", (now, records) => store.jobs.discard(id, now, records)),
    async test(caller, binding_id, request) {
      requireOperator(caller, "test hooks");
      const bound = await store.bindings.get(caller.scope, binding_id);
      if (bound === null) throw new BackplaneError("binding.not_found");
      const { scope, status } = bound.binding;
      const type = resolveEventType(bound, request);
      if (status !== "active") {
        throw new BackplaneError("binding.not_active", `The binding ${binding_id} is ${status}.`);
      }
      const delivery_id = ids.next("delivery");
      const project_id = scope.project_id ?? caller.scope.project_id;
      const payload: DeliveryPayload = {
        delivery_id,
        binding_id,
        org_id: scope.org_id,
        project_id,
        event: buildExampleEvent(type, request, clock.now(), ids.next("trace")),
        test: true,
      };
      const job = {
        id: delivery_id,
        scope: { org_id: scope.org_id, project_id },
        queue: DELIVERIES_QUEUE,
        lane: binding_id,
        group: null,
        payload: payload as unknown as JsonObject,
        max_attempts: 1,
      };
      await store.jobs.enqueue([job], clock.now());
      changes.emit("deliveries.added", {});
      return deliveryOf(await find(caller, delivery_id));
    },
  };
}

/** A job of another tenant is treated as missing. */
function isVisible({ scope }: Caller, job: Job): boolean {
  if (job.scope?.org_id !== scope.org_id) return false;
  return scope.project_id === null || job.scope.project_id === scope.project_id;
}

function deliveryOf(job: Job): Delivery {
  const { binding_id, org_id, project_id, event, test = false } = job.payload as unknown as DeliveryPayload;
  const dateOf = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  return {
    id: job.id,
    org_id,
    project_id,
    binding_id,
    status: STATUS_BY_STATE[job.state],
    attempt: job.attempt,
    max_attempts: job.max_attempts,
    next_attempt_at: job.state === "ready" ? dateOf(job.run_at) : null,
    ended_at: dateOf(job.ended_at),
    error: job.last_error,
    invocation_id: job.invocation_id,
    test,
    event,
  };
}

function resolveEventType(
  { binding, package: { manifest } }: BoundPackage,
  request: HookTest,
): SemanticEventType {
  const item = manifest.exports.find(({ id }) => id === binding.export_id);
  if (item?.kind !== "hook") {
    throw new BackplaneError("request.invalid", `The binding ${binding.binding_id} does not bind a hook.`);
  }
  const type = request.type ?? item.hook.subscribes_to[0]!;
  if (item.hook.subscribes_to.includes(type)) return type;
  throw new BackplaneError("request.invalid", `${item.id} does not subscribe to ${type}.`, {
    details: { subscribes_to: item.hook.subscribes_to },
  });
}

function buildExampleEvent(
  type: SemanticEventType,
  { summary }: HookTest,
  now: number,
  trace_id: string,
): DeliveryPayload["event"] {
  const [kind = ""] = type.split(".");
  return {
    type,
    occurred_at: new Date(now).toISOString(),
    subject: { kind, id: `${kind}_example` },
    summary: summary ?? { task: `Example of ${type}`, output: "This event was sent to test the hook." },
    trace_id,
    test: true,
  };
}
