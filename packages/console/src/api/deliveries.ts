import type { Client } from "@backplane/client";
import { type DeliveryStatus, definedFields } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

export interface DeliveryFilter {
  binding_id?: string | undefined;
  status?: DeliveryStatus | undefined;
}

/** Deliveries have no events, so they are polled. */
const POLL_MS = 5_000;
const LATEST_CALLS = 200;

export const deliveryQueries = {
  list: (client: Client, filter: DeliveryFilter = {}) => ({
    ...pagedQuery(["deliveries", "list", filter], (page) =>
      client.deliveries.list({ ...definedFields(filter), ...page, limit: 100 }),
    ),
    refetchInterval: POLL_MS,
  }),
  detail: (client: Client, id: string) =>
    queryOptions({
      queryKey: ["deliveries", "detail", id],
      queryFn: () => client.deliveries.get(id),
      refetchInterval: ({ state }) => (isOpen(state.data?.status) ? POLL_MS : false),
    }),
  /** The calls of a delivery, oldest first, among the latest calls of its hook. */
  attempts: (client: Client, binding_id: string, delivery_id: string) =>
    queryOptions({
      queryKey: ["invocations", "attempts", delivery_id],
      queryFn: async () => {
        const { items } = await client.invocations.list({ binding_id, limit: LATEST_CALLS });
        return items.filter(({ execution_id }) => execution_id === delivery_id).toReversed();
      },
    }),
};

function isOpen(status: DeliveryStatus | undefined): boolean {
  return status === "pending" || status === "running";
}
