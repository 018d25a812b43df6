/** The messages of a conversation, with the actions on each of them. */
import { ActionIcon, Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { problemOf } from "../../api/problem.ts";
import type { OutgoingMessage } from "../../api/session-outbox.ts";
import { CopyButton } from "../../parts/actions/copy-button.tsx";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { Time } from "../../parts/values/time.tsx";
import { Attachments } from "./content-blocks.tsx";
import { MarkdownView } from "./markdown-view.tsx";
import { useCardOpen } from "./open-cards.ts";
import styles from "./sessions.module.css";

/** Each action is null if the session cannot be changed. */
export interface EntryActions {
  fork: ((entry: number) => void) | null;
  pin: ((entry: number, pinned: boolean) => void) | null;
}

export interface EntryToolbarProps {
  entry: number;
  /** The last entry that a fork inherits; by default `entry`. */
  fork_at?: number;
  pinned: boolean;
  actions: EntryActions;
  /** The text that the copy button copies. */
  text?: string;
}

/** Visible while the message is hovered or has the focus. */
export function EntryToolbar({ entry, fork_at = entry, pinned, actions, text }: EntryToolbarProps) {
  const { fork, pin } = actions;
  return (
    <div className={styles.toolbar} data-pinned={pinned ? "" : undefined}>
      {text !== undefined && <CopyButton text={text} label="Copy the message" />}
      {fork !== null && (
        <ToolbarButton
          icon="fork"
          label="Fork from here"
          title="Start another session with everything up to here"
          onClick={() => fork(fork_at)}
        />
      )}
      {pin !== null && (
        <ToolbarButton
          icon="pin"
          label={pinned ? "Unpin" : "Pin"}
          title="A pinned message stays as it is when earlier messages are summarized"
          pressed={pinned}
          onClick={() => pin(entry, !pinned)}
        />
      )}
    </div>
  );
}

interface ToolbarButtonProps {
  icon: IconName;
  label: string;
  title: string;
  pressed?: boolean;
  onClick: () => void;
}

function ToolbarButton({ icon, label, title, pressed, onClick }: ToolbarButtonProps) {
  return (
    <ActionIcon
      variant={pressed === true ? "light" : "subtle"}
      color={pressed === true ? undefined : "gray"}
      size="sm"
      aria-label={label}
      title={title}
      aria-pressed={pressed}
      onClick={onClick}
    >
      <Icon name={icon} size={14} />
    </ActionIcon>
  );
}

interface UserMessageViewProps extends Omit<EntryToolbarProps, "text"> {
  text: string;
  at: string;
  attachments: Parameters<typeof Attachments>[0]["blocks"];
}

export function UserMessageView({ text, at, attachments, ...toolbar }: UserMessageViewProps) {
  return (
    <article className={styles.user} aria-label="You">
      <div className={styles.bubble}>
        {text !== "" && <p className={styles.text}>{text}</p>}
        <Attachments blocks={attachments} />
      </div>
      <div className={styles.meta}>
        <Time at={at} />
        <EntryToolbar {...toolbar} text={text} />
      </div>
    </article>
  );
}

interface AssistantMessageProps extends Omit<EntryToolbarProps, "text"> {
  text: string;
  at: string;
}

export function AssistantMessage({ text, at, ...toolbar }: AssistantMessageProps) {
  return (
    <article className={styles.assistant} aria-label="Assistant">
      <MarkdownView text={text} />
      <div className={styles.meta}>
        <Time at={at} />
        <EntryToolbar {...toolbar} text={text} />
      </div>
    </article>
  );
}

export function StreamingAnswer({ text }: { text: string }) {
  return (
    <article className={styles.assistant} aria-label="Assistant" aria-busy="true" data-streaming="">
      <MarkdownView text={text} />
    </article>
  );
}

export function WorkingIndicator({ children }: { children: ReactNode }) {
  return (
    <p className={styles.working}>
      <span className={styles.dots} aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {children}
    </p>
  );
}

export function Thinking({ text, id, streaming }: { text: string; id: string; streaming: boolean }) {
  const [opened, setOpened] = useCardOpen(id);
  return (
    <details
      className={styles.thinking}
      open={opened}
      onToggle={({ currentTarget }) => setOpened(currentTarget.open)}
    >
      <summary>
        <span className={styles.chevron}>
          <Icon name="chevron" size={14} />
        </span>
        {streaming ? "Thinking…" : "Thinking"}
      </summary>
      <p className={styles.text}>{text}</p>
    </details>
  );
}

interface OutgoingMessageViewProps {
  message: OutgoingMessage;
  onRetry: () => void;
  /** Puts the message back into the message box. */
  onEdit: (message: OutgoingMessage) => void;
}

/** A message that is not on the tape yet. */
export function OutgoingMessageView({ message, onRetry, onEdit }: OutgoingMessageViewProps) {
  const { state, text, attachments, error } = message;
  const problem = state === "rejected" ? problemOf(error) : null;
  return (
    <article className={styles.user} aria-label="You" data-state={state}>
      <div className={styles.bubble}>
        {text !== "" && <p className={styles.text}>{text}</p>}
        <Attachments blocks={attachments} />
      </div>
      {problem === null ? (
        <p className={styles.note}>
          {state === "waiting"
            ? "Not sent yet. The message will be sent when the gateway responds."
            : "Sending…"}
        </p>
      ) : (
        <div className={styles.notSent} role="alert">
          <p>
            Not sent. {problem.message} {problem.fix}{" "}
            <a href={`/docs/errors#${problem.code}`}>
              <code>{problem.code}</code>
            </a>
          </p>
          <Button size="compact-xs" variant="default" onClick={onRetry}>
            Send again
          </Button>
          <Button size="compact-xs" variant="subtle" onClick={() => onEdit(message)}>
            Edit
          </Button>
        </div>
      )}
    </article>
  );
}

export function TurnError({ code, message }: { code: string; message: string }) {
  return (
    <div className={styles.error} role="alert">
      <Icon name="alert" size={16} />
      <p>
        {message}{" "}
        <a href={`/docs/errors#${code}`}>
          <code>{code}</code>
        </a>
      </p>
    </div>
  );
}

export function SessionLink({
  id,
  workspace,
  children,
}: {
  id: string;
  workspace: string;
  children: ReactNode;
}) {
  return (
    <Link to="/sessions/$id" params={{ id }} search={workspace === "default" ? {} : { workspace }}>
      {children}
    </Link>
  );
}
