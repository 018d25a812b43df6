/** Deliveries of events to hooks, and the operations on a hook: test, pause and resume. */
import { BackplaneError, type Binding, DELIVERY_STATUSES } from "@backplane/contract";
import { BindingSchema, DeliverySchema, HookTestSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, nameSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const ListQuery = PageQuery.extend({
  status: z.enum(DELIVERY_STATUSES).optional().describe("`dead` lists the dead letters."),
  binding_id: nameSchema(64).min(1).optional(),
});

export function deliveryRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/deliveries",
      operation_id: "listDeliveries",
      summary: "List deliveries, newest first",
      tag: "Deliveries",
      auth: { scope: "invocations:read" },
      query: ListQuery,
      responses: { 200: { description: "A page.", schema: listSchema(DeliverySchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.deliveries.list(caller, filter, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/deliveries/{id}",
      operation_id: "getDelivery",
      summary: "Read a delivery with its event",
      tag: "Deliveries",
      auth: { scope: "invocations:read" },
      params: IdParams,
      responses: { 200: { description: "The delivery.", schema: DeliverySchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.deliveries.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/deliveries/{id}:replay",
      operation_id: "replayDelivery",
      summary: "Deliver a dead letter again",
      description:
        "The hook gets the same delivery_id and the next attempt number. The delivery may be attempted as often as a " +
        "new one. Responds 409 delivery.conflict if the delivery is not dead.",
      tag: "Deliveries",
      auth: { scope: "invocations:write" },
      params: IdParams,
      responses: { 200: { description: "Pending again.", schema: DeliverySchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.deliveries.replay(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/deliveries/{id}:discard",
      operation_id: "discardDelivery",
      summary: "Discard a pending or dead delivery",
      description:
        "The next delivery for the same subject can then run. Responds 409 delivery.conflict in other states.",
      tag: "Deliveries",
      auth: { scope: "invocations:write" },
      params: IdParams,
      responses: { 200: { description: "Discarded.", schema: DeliverySchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.deliveries.discard(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:test",
      operation_id: "testHook",
      summary: "Deliver an example event to a hook",
      description:
        "The delivery and its event are marked `test` and ignore filters. There is one attempt. Read the delivery to see " +
        "the outcome.",
      tag: "Deliveries",
      auth: { scope: "bindings:write" },
      params: IdParams,
      body: HookTestSchema,
      idempotent: true,
      responses: { 202: { description: "The delivery.", schema: DeliverySchema } },
      handler: ({ caller, params, body, request }) =>
        respondOnce(kernel, caller, request, body, async () => ({
          status: 202,
          json: await kernel.deliveries.test(caller, params.id, body),
        })),
    }),
    ...([true, false] as const).map((paused) =>
      defineRoute({
        method: "POST",
        path: `/v1/plugin-bindings/{id}:${paused ? "pause" : "resume"}`,
        operation_id: paused ? "pauseHook" : "resumeHook",
        summary: paused ? "Pause the deliveries to a hook" : "Resume the deliveries to a hook",
        description: paused
          ? "Events are kept and delivered after the hook is resumed. Deliveries in progress finish."
          : "Delivers the events that were kept, in their order.",
        tag: "Deliveries",
        auth: { scope: "bindings:write" },
        params: IdParams,
        responses: { 200: { description: paused ? "Paused." : "Resumed.", schema: BindingSchema } },
        handler: async ({ caller, params }) => ({
          status: 200,
          json: await setPaused(caller, params.id, paused),
        }),
      }),
    ),
  ];

  async function setPaused(caller: Caller, id: string, paused: boolean): Promise<Binding> {
    const { kind, policy, generation } = await kernel.bindings.get(caller, id);
    if (kind !== "hook")
      throw new BackplaneError("request.invalid", `The binding ${id} does not bind a hook.`);
    const { paused: _before, ...rest } = policy.deliveries ?? {};
    const deliveries = paused ? { ...rest, paused } : rest;
    return await kernel.bindings.patch(caller, id, { policy: { ...policy, deliveries } }, generation);
  }
}
