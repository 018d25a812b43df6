import type { Invocation } from "@backplane/contract";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { deliveryQueries } from "../../api/deliveries.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { DELIVERY_STATES } from "../../parts/lists/delivery-columns.tsx";
import { Time } from "../../parts/values/time.tsx";

export function isDeliveryCall({ export_kind, requested_by }: Invocation): boolean {
  return export_kind === "hook" && requested_by === "kernel";
}

/** The event that this call delivers to a hook. Each attempt is a call of its own. */
export function CallDelivery({ call }: { call: Invocation }) {
  const client = useClient();
  const delivery = useQuery({ ...deliveryQueries.detail(client, call.execution_id), retry: false });
  const attempts = useQuery(deliveryQueries.attempts(client, call.binding_id, call.execution_id));
  if (delivery.data === undefined) return null;
  const { status, attempt, max_attempts, next_attempt_at, error, event } = delivery.data;
  return (
    <Card title="Delivery">
      <Fields
        items={[
          ["Event", typeof event.type === "string" ? event.type : null],
          ["Status", DELIVERY_STATES[status].label],
          ["Attempts", `${attempt} of ${max_attempts}; this call is attempt ${call.retry_count + 1}`],
          ["Next attempt", next_attempt_at === null ? null : <Time key="next" at={next_attempt_at} />],
          ["Last error", error],
          [
            "All attempts",
            attempts.data === undefined ? null : (
              <span key="attempts">
                {attempts.data.map(({ id, retry_count, error: attempt_error }, index) => (
                  <span key={id}>
                    {index > 0 && ", "}
                    <Link to="/invocations/$id" params={{ id }} aria-current={id === call.id || undefined}>
                      {retry_count + 1}
                    </Link>
                    {attempt_error !== null && ` ${attempt_error.code}`}
                  </span>
                ))}
              </span>
            ),
          ],
          [
            "Hook",
            <Link
              key="hook"
              to="/bindings/$id"
              params={{ id: call.binding_id }}
              search={{ view: "deliveries" }}
            >
              All deliveries of this hook
            </Link>,
          ],
        ]}
      />
    </Card>
  );
}
