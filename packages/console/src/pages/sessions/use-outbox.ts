import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { useServices } from "../../api/services.ts";
import { createOutbox, type Outbox } from "../../api/session-outbox.ts";
import type { SessionAddress } from "../../api/sessions.ts";

/** The messages of this tab that are not on the tape yet. The URL of a new chat changes once its session exists. */
export function useOutbox(address: SessionAddress, is_new: boolean): Outbox {
  const { client, queries, live } = useServices();
  const navigate = useNavigate();
  const starts_session = useRef(is_new);
  starts_session.current = is_new;
  const outbox = useMemo(
    () =>
      createOutbox({
        address,
        client,
        live,
        storage: sessionStorage,
        onStored() {
          void queries.invalidateQueries({ queryKey: ["sessions"] });
          if (!starts_session.current) return;
          const search = (current: object) => ({ ...current, new: undefined });
          void navigate({ to: ".", search: search as never, replace: true });
        },
      }),
    [address, client, live, queries, navigate],
  );
  useEffect(() => () => outbox.close(), [outbox]);
  return outbox;
}
