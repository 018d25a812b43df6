/** The columns of a list of deliveries, and the actions on one of them. */
import type { Delivery, DeliveryStatus } from "@backplane/contract";
import { Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useServices } from "../../api/services.ts";
import { useToast } from "../actions/toast.tsx";
import type { IconName } from "../layout/icon.tsx";
import parts from "../styles/parts.module.css";
import { Badge, type Tone } from "../values/badge.tsx";
import { Time } from "../values/time.tsx";
import type { Column } from "./data-table.tsx";
import { RowLink } from "./row-link.tsx";

export const DELIVERY_STATES: Record<DeliveryStatus, { tone: Tone; icon: IconName; label: string }> = {
  pending: { tone: "info", icon: "clock", label: "Pending" },
  running: { tone: "info", icon: "play", label: "Running" },
  delivered: { tone: "good", icon: "check", label: "Delivered" },
  dead: { tone: "bad", icon: "octagon", label: "Dead" },
  discarded: { tone: "quiet", icon: "cross", label: "Discarded" },
};

export function DeliveryBadge({ status }: { status: DeliveryStatus }) {
  const { tone, icon, label } = DELIVERY_STATES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

export const DELIVERY_COLUMNS: readonly Column<Delivery>[] = [
  {
    header: "Event",
    cell: ({ id, event, test }) => (
      <>
        <RowLink to="/deliveries" search={((current: object) => ({ ...current, id })) as never}>
          {eventType(event)}
        </RowLink>
        <span className={parts.rowSub}>{test ? "Example event" : id}</span>
      </>
    ),
  },
  { header: "Status", cell: ({ status }) => <DeliveryBadge status={status} /> },
  { header: "Attempts", numeric: true, cell: ({ attempt, max_attempts }) => `${attempt} of ${max_attempts}` },
  { header: "Error", cell: ({ error }) => error },
  {
    header: "When",
    cell: ({ ended_at, next_attempt_at }) => {
      const at = ended_at ?? next_attempt_at;
      return at !== null && <Time at={at} />;
    },
  },
  { header: "Action", numeric: true, cell: (delivery) => <DeliveryActions delivery={delivery} /> },
];

/** A dead delivery can be replayed; a dead or pending delivery can be discarded. */
export function DeliveryActions({ delivery: { id, status } }: { delivery: Delivery }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const act = useMutation({
    mutationFn: (action: "replay" | "discard") => client.deliveries[action](id),
    onSuccess: (_delivery, action) =>
      toast.show({
        tone: "good",
        title: action === "replay" ? "The event is delivered again." : "The delivery was discarded.",
      }),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["deliveries"] }),
  });
  if (status !== "dead" && status !== "pending") return null;
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {status === "dead" && (
        <Button
          size="compact-sm"
          variant="default"
          loading={act.isPending}
          onClick={() => act.mutate("replay")}
        >
          Replay
        </Button>
      )}
      <Button
        size="compact-sm"
        variant="default"
        loading={act.isPending}
        onClick={() => act.mutate("discard")}
      >
        Discard
      </Button>
    </Group>
  );
}

export function eventType({ type }: Delivery["event"]): string {
  return typeof type === "string" ? type : "unknown";
}
