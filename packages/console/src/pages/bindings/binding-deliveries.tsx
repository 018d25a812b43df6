/** The deliveries of one hook. */
import type { Binding } from "@backplane/contract";
import { useInfiniteQuery } from "@tanstack/react-query";
import { deliveryQueries } from "../../api/deliveries.ts";
import { useClient } from "../../api/services.ts";
import { DELIVERY_COLUMNS } from "../../parts/lists/delivery-columns.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";

export function BindingDeliveries({ binding: { binding_id } }: { binding: Binding }) {
  const query = useInfiniteQuery(deliveryQueries.list(useClient(), { binding_id }));
  return (
    <PagedList
      label="Deliveries"
      query={query}
      columns={DELIVERY_COLUMNS}
      rowKey={({ id }) => id}
      empty={
        <EmptyView icon="event" command={`backplane delivery list --binding ${binding_id}`}>
          No event has been delivered to this hook yet.
        </EmptyView>
      }
    />
  );
}
