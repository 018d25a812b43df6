/** The title of a session, which a person can change, its state, and the actions on the whole session. */
import type { Session } from "@backplane/contract";
import { ActionIcon, Button, Menu, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useServices } from "../../api/services.ts";
import type { SessionAddress } from "../../api/sessions.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";
import { SessionLink } from "./messages.tsx";
import { isSubAgent, newSessionId, readOnlyReason, sessionTitle } from "./session-text.ts";
import styles from "./sessions.module.css";

export interface SessionHeaderProps {
  /** Null before the first message. */
  session: Session | null;
  address: SessionAddress;
  running: boolean;
  compacting: boolean;
  onCompact: () => void;
  details_open: boolean;
  onDetails: () => void;
}

export function SessionHeader(props: SessionHeaderProps) {
  const { session, address, running, compacting, onCompact, details_open, onDetails } = props;
  const navigate = useNavigate();
  const title = session === null ? "New chat" : sessionTitle(session);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Backplane`;
  }, [title]);
  useEffect(() => {
    if (document.activeElement === null || document.activeElement === document.body)
      heading.current?.focus({ preventScroll: true });
  }, []);
  const [editing, setEditing] = useState(false);
  const search = address.workspace === "default" ? {} : { workspace: address.workspace };
  const writable = session !== null && readOnlyReason(session) === null;
  return (
    <div className={styles.header}>
      <div className={styles.headerText}>
        {editing && session !== null ? (
          <TitleField
            session={session}
            address={address}
            onClose={() => {
              setEditing(false);
              requestAnimationFrame(() => heading.current?.focus());
            }}
          />
        ) : (
          <div className={styles.titleRow}>
            <h1 className={parts.pageTitle} tabIndex={-1} ref={heading} title={title}>
              <span className={styles.title}>{title}</span>
              {running && (
                <Badge tone="info" icon="play">
                  Running
                </Badge>
              )}
            </h1>
            {session !== null && (
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label="Change the title"
                title="Change the title"
                onClick={() => setEditing(true)}
              >
                <Icon name="edit" size={16} />
              </ActionIcon>
            )}
          </div>
        )}
        {session !== null && (
          <p className={styles.lead}>
            <Origin session={session} workspace={address.workspace} />
            started <Time at={session.created_at} />
          </p>
        )}
      </div>
      <div className={parts.pageActions}>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={16} />}
          onClick={() =>
            void navigate({
              to: "/sessions/$id",
              params: { id: newSessionId() },
              search: { ...search, new: "1" },
            })
          }
        >
          New chat
        </Button>
        {session !== null && (
          <Button variant="default" aria-expanded={details_open} onClick={onDetails}>
            Details
          </Button>
        )}
        {writable && (
          <SessionMenu address={address} running={running} compacting={compacting} onCompact={onCompact} />
        )}
      </div>
    </div>
  );
}

function Origin({ session, workspace }: { session: Session; workspace: string }): ReactNode {
  const { parent_session_id } = session;
  if (parent_session_id === null) return null;
  return (
    <>
      {isSubAgent(session) ? "Sub-agent of " : "Fork of "}
      <SessionLink id={parent_session_id} workspace={workspace}>
        {parent_session_id}
      </SessionLink>
      {", "}
    </>
  );
}

interface TitleFieldProps {
  session: Session;
  address: SessionAddress;
  onClose: () => void;
}

function TitleField({ session, address, onClose }: TitleFieldProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const current = sessionTitle(session);
  const [title, setTitle] = useState(current === session.id ? "" : current);
  const save = useMutation({
    mutationFn: () =>
      client.sessions.patch(
        session.id,
        { title: title.trim() === "" ? null : title.trim() },
        { workspace: address.workspace },
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["sessions"] });
      onClose();
    },
    onError: toast.fail,
  });
  return (
    <form
      className={styles.titleForm}
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <TextInput
        aria-label="Title"
        placeholder={session.id}
        maxLength={200}
        value={title}
        data-autofocus
        ref={(node) => node?.focus()}
        onChange={({ currentTarget }) => setTitle(currentTarget.value)}
        onKeyDown={({ key }) => {
          if (key === "Escape") onClose();
        }}
      />
      <Button type="submit" loading={save.isPending}>
        Save
      </Button>
      <Button variant="default" onClick={onClose}>
        Cancel
      </Button>
    </form>
  );
}

type MenuProps = Pick<SessionHeaderProps, "address" | "running" | "compacting" | "onCompact">;

function SessionMenu({ address, running, compacting, onCompact }: MenuProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const { session_id, workspace } = address;
  const reset = useMutation({
    mutationFn: () => client.sessions.reset(session_id, { workspace }),
    onSuccess: () =>
      toast.show({ tone: "good", title: "The session was reset. Its earlier messages are archived." }),
    onError: toast.fail,
    onSettled: () => {
      setAsking(false);
      return queries.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon size="input-sm" variant="default" aria-label="More actions">
            <Icon name="more" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<Icon name="compact" size={16} />}
            disabled={running || compacting}
            onClick={onCompact}
          >
            Compact now
          </Menu.Item>
          <Menu.Item
            leftSection={<Icon name="rerun" size={16} />}
            disabled={running || compacting}
            onClick={() => setAsking(true)}
          >
            Reset the session
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Confirm
        opened={asking}
        title="Reset the session?"
        action="Reset"
        danger
        busy={reset.isPending}
        onConfirm={() => reset.mutate()}
        onClose={() => setAsking(false)}
      >
        The messages so far are archived and stay visible here, but the model starts with an empty context. A
        reset cannot be undone. To keep this conversation as well, fork it first.
      </Confirm>
    </>
  );
}
