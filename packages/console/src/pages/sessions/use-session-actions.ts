/** The actions of a person on a session: fork, pin, stop, compact, and load earlier messages. */
import { codeOf, type Session } from "@backplane/contract";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { useServices } from "../../api/services.ts";
import { loadEarlierEntries, type SessionAddress } from "../../api/sessions.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import type { EntryActions } from "./messages.tsx";
import { readOnlyReason } from "./session-text.ts";

export function useSessionActions(session: Session | null, address: SessionAddress, compacting: boolean) {
  const { client, queries } = useServices();
  const toast = useToast();
  const navigate = useNavigate();
  const { session_id, workspace } = address;
  const refresh = () => queries.invalidateQueries({ queryKey: ["sessions"] });

  const fork = useMutation({
    mutationFn: (at: number) =>
      client.sessions.branch(session_id, { at }, { workspace }, { idempotency_key: crypto.randomUUID() }),
    onSuccess: async (child) => {
      toast.show({ tone: "good", title: "The session was forked. You are now in the fork." });
      await refresh();
      await navigate({
        to: "/sessions/$id",
        params: { id: child.id },
        search: workspace === "default" ? {} : { workspace },
      });
    },
    onError: toast.fail,
  });
  const pin = useMutation({
    mutationFn: async ({ entry, pinned }: { entry: number; pinned: boolean }) => {
      if (pinned) await client.sessions.pin(session_id, entry, { workspace });
      else await client.sessions.unpin(session_id, entry, { workspace });
    },
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["sessions", "pins"] }),
  });
  const stop = useMutation({
    mutationFn: () => client.sessions.interrupt(session_id, { workspace }),
    onError: toast.fail,
    onSettled: refresh,
  });
  // A model may take longer than the timeout of a request; the session stream then reports the end.
  const still_running = useRef(compacting);
  useEffect(() => {
    still_running.current = compacting;
  }, [compacting]);
  const compact = useMutation({
    mutationFn: () =>
      client.compactions.create({ session_id, workspace }, { idempotency_key: crypto.randomUUID() }),
    onError: (error) => {
      if (codeOf(error) !== "daemon.unreachable" || !still_running.current) toast.fail(error);
    },
    onSettled: refresh,
  });
  const earlier = useMutation({
    mutationFn: () => loadEarlierEntries(client, queries, address),
    onError: toast.fail,
  });

  const forkAt = fork.mutate;
  const pinEntry = pin.mutate;
  const writable = session !== null && readOnlyReason(session) === null;
  const actions = useMemo<EntryActions>(
    () => ({
      fork: writable ? forkAt : null,
      pin: writable ? (entry, pinned) => pinEntry({ entry, pinned }) : null,
    }),
    [writable, forkAt, pinEntry],
  );
  const loadEarlier = earlier.mutate;
  const onEarlier = useMemo(
    () => (earlier.isPending ? null : () => loadEarlier()),
    [earlier.isPending, loadEarlier],
  );
  return { actions, stop, compact, onEarlier };
}
