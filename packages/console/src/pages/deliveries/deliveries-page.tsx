/** The deliveries of events to all hooks, newest first. */
import { DELIVERY_STATUSES, type Delivery } from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { bindingQueries } from "../../api/bindings.ts";
import { deliveryQueries } from "../../api/deliveries.ts";
import { useClient } from "../../api/services.ts";
import { Fields } from "../../parts/layout/fields.tsx";
import { ListAndDetail } from "../../parts/layout/list-and-detail.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import {
  DELIVERY_COLUMNS,
  DELIVERY_STATES,
  DeliveryActions,
  DeliveryBadge,
  eventType,
} from "../../parts/lists/delivery-columns.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";

const STATUS_OPTIONS = DELIVERY_STATUSES.map((value) => ({ value, label: DELIVERY_STATES[value].label }));

export function DeliveriesPage() {
  const client = useClient();
  const search = useSearch({ from: "/deliveries" });
  const setFilters = useSetFilters<typeof search>();
  const status = DELIVERY_STATUSES.find((known) => known === search.status);
  const query = useInfiniteQuery(deliveryQueries.list(client, { status, binding_id: search.binding }));
  const hooks = useQuery(bindingQueries.all(client, { kind: "hook" })).data ?? [];
  const filtered = status !== undefined || search.binding !== undefined;
  return (
    <>
      <PageHeader
        title="Deliveries"
        lead="Deliveries of events to hooks. You can replay or discard a dead delivery until its retention period ends."
      />
      <search className={parts.filters} aria-label="Filters">
        <Select
          aria-label="Status"
          placeholder="Any status"
          clearable
          data={STATUS_OPTIONS}
          value={status ?? null}
          onChange={(value) => setFilters({ status: value ?? undefined })}
        />
        <Select
          aria-label="Hook"
          placeholder="Any hook"
          searchable
          clearable
          data={hooks.map(({ binding_id, export_id, package_id }) => ({
            value: binding_id,
            label: `${export_id} of ${package_id}`,
          }))}
          value={search.binding ?? null}
          onChange={(value) => setFilters({ binding: value ?? undefined })}
        />
        {filtered && (
          <Button variant="subtle" onClick={() => setFilters({ status: undefined, binding: undefined })}>
            Clear filters
          </Button>
        )}
      </search>
      <ListAndDetail
        detail={
          search.id === undefined
            ? null
            : { title: "Delivery", content: <DeliveryDetail key={search.id} id={search.id} /> }
        }
        onClose={() => setFilters({ id: undefined })}
      >
        <PagedList
          label="Deliveries"
          query={query}
          columns={DELIVERY_COLUMNS}
          rowKey={({ id }) => id}
          empty={
            filtered ? (
              <EmptyView icon="event">No delivery matches these filters.</EmptyView>
            ) : (
              <EmptyView icon="event" command="backplane delivery list">
                No event has been delivered to a hook yet. Bind a hook to receive events.
              </EmptyView>
            )
          }
        />
      </ListAndDetail>
    </>
  );
}

function DeliveryDetail({ id }: { id: string }) {
  const query = useQuery(deliveryQueries.detail(useClient(), id));
  if (query.data === undefined)
    return query.isError ? (
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    ) : (
      <ListSkeleton />
    );
  return (
    <div className={layout.tight}>
      <Fields items={fieldsOf(query.data)} />
      <DeliveryActions delivery={query.data} />
      <JsonView value={query.data.event} label="Event" />
    </div>
  );
}

function fieldsOf(delivery: Delivery) {
  const { id, event, status, attempt, max_attempts, error, binding_id, invocation_id } = delivery;
  const { ended_at, next_attempt_at } = delivery;
  return [
    ["Event", eventType(event)],
    ["Status", <DeliveryBadge key="status" status={status} />],
    ["Attempts", `${attempt} of ${max_attempts}`],
    ["Next attempt", next_attempt_at === null ? null : <Time key="next" at={next_attempt_at} />],
    ["Ended", ended_at === null ? null : <Time key="ended" at={ended_at} />],
    ["Error", error],
    [
      "Hook",
      <Link key="hook" to="/bindings/$id" params={{ id: binding_id }}>
        {binding_id}
      </Link>,
    ],
    [
      "Call",
      invocation_id === null ? null : (
        <Link key="call" to="/invocations/$id" params={{ id: invocation_id }}>
          {invocation_id}
        </Link>
      ),
    ],
    ["Delivery", id],
  ] as const;
}
