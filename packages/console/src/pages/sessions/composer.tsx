/** The message box: text, files and the model. A message that is sent while a turn runs joins that turn. */
import { ActionIcon, Button, CloseButton, FileButton, NativeSelect, Textarea } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useState,
} from "react";
import { useServices } from "../../api/services.ts";
import { providerQueries } from "../../api/settings.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { bytesText } from "../../parts/text/bytes-text.ts";
import { attachmentsProblem, type MessageAttachment, readAttachment } from "./attachments.ts";
import styles from "./composer.module.css";
import { providerText } from "./session-text.ts";

export interface ComposerProps {
  box: RefObject<HTMLTextAreaElement | null>;
  draft: MessageDraft;
  /** Why no message can be sent; null if one can. */
  disabled_reason: string | null;
  running: boolean;
  onSend: (text: string, attachments: readonly MessageAttachment[]) => void;
  onStop: () => void;
  /** The last message of the person, which the up arrow recalls. */
  last_text: string;
  autoFocus: boolean;
}

/** The message that is being written. Its text survives a reload of the tab. */
export interface MessageDraft {
  text: string;
  setText: (text: string) => void;
  attachments: readonly MessageAttachment[];
  setAttachments: (change: (current: readonly MessageAttachment[]) => readonly MessageAttachment[]) => void;
}

export function useDraft(session_key: string): MessageDraft {
  const key = `draft ${session_key}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? "");
  const [attachments, setAttachments] = useState<readonly MessageAttachment[]>([]);
  useEffect(() => {
    if (text === "") sessionStorage.removeItem(key);
    else if (text.length < 100_000) sessionStorage.setItem(key, text);
  }, [key, text]);
  return { text, setText, attachments, setAttachments };
}

export function Composer(props: ComposerProps) {
  const { box, draft, disabled_reason, running, onSend, onStop, last_text, autoFocus } = props;
  const { text, setText, attachments, setAttachments } = draft;
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [reading, setReading] = useState(0);
  const [dragged, setDragged] = useState(false);
  useEffect(() => {
    if (autoFocus) box.current?.focus({ preventScroll: true });
  }, [autoFocus, box]);

  const addFiles = async (files: readonly File[]) => {
    setProblems([]);
    setReading((count) => count + files.length);
    for (const file of files) {
      try {
        const added = await readAttachment(file);
        setAttachments((current) => [...current, added]);
      } catch (error) {
        setProblems((current) => [...current, error instanceof Error ? error.message : String(error)]);
      } finally {
        setReading((count) => count - 1);
      }
    }
    box.current?.focus();
  };

  const limit =
    attachments.length > 0 || text.length > 100_000 ? attachmentsProblem(text, attachments) : null;
  const empty = text.trim() === "" && attachments.length === 0;
  const sendable = !empty && limit === null && reading === 0;
  const send = () => {
    if (!sendable) return;
    onSend(text.trim(), attachments);
    setText("");
    setAttachments(() => []);
    setProblems([]);
    box.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    // An input method confirms its text with Enter.
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && running) onStop();
    else if (event.key === "ArrowUp" && text === "" && last_text !== "") {
      event.preventDefault();
      setText(last_text);
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    void addFiles(files);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setDragged(false);
    void addFiles([...event.dataTransfer.files]);
  };
  const onDragOver = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setDragged(true);
  };

  if (disabled_reason !== null) return <p className={styles.disabled}>{disabled_reason}</p>;
  const shown = limit === null ? problems : [...problems, limit];
  return (
    <form
      className={styles.composer}
      aria-label="Message"
      data-dragged={dragged ? "" : undefined}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={onDragOver}
      onDragLeave={({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget as Node | null)) setDragged(false);
      }}
      onDrop={onDrop}
    >
      {attachments.length > 0 && (
        <ul className={styles.files} aria-label="Files of the message">
          {attachments.map((attachment, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two files may have the same name
            <li key={`${attachment.name} ${index}`}>
              <AttachmentChip
                attachment={attachment}
                onRemove={() => {
                  setAttachments((current) => current.filter((each) => each !== attachment));
                  box.current?.focus();
                }}
              />
            </li>
          ))}
        </ul>
      )}
      <Textarea
        ref={box}
        aria-label="Message"
        placeholder={running ? "Add to the running turn" : "Write a message"}
        variant="unstyled"
        autosize
        minRows={1}
        maxRows={12}
        classNames={{ input: styles.input }}
        value={text}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      {shown.length > 0 && (
        <div className={styles.problems} role="alert">
          {shown.map((problem) => (
            <p key={problem}>{problem}</p>
          ))}
        </div>
      )}
      <div className={styles.bar}>
        <FileButton multiple onChange={(files) => void addFiles(files)}>
          {({ onClick }) => (
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Attach files"
              title="Attach files. You can also drop or paste them."
              loading={reading > 0}
              onClick={onClick}
            >
              <Icon name="attach" />
            </ActionIcon>
          )}
        </FileButton>
        <ModelSelect />
        <span className={styles.hint}>
          {running ? "Enter adds to the turn, Esc stops it" : "Enter sends, Shift+Enter starts a new line"}
        </span>
        {running && (
          <Button
            size="xs"
            variant="default"
            leftSection={<Icon name="stop" size={14} />}
            onClick={onStop}
            title="Stop the turn (Esc)"
          >
            Stop
          </Button>
        )}
        <ActionIcon type="submit" size="lg" radius="xl" aria-label="Send" title="Send" disabled={!sendable}>
          <Icon name="send" />
        </ActionIcon>
      </div>
      {dragged && <div className={styles.drop}>Drop the files to attach them</div>}
    </form>
  );
}

function AttachmentChip({ attachment, onRemove }: { attachment: MessageAttachment; onRemove: () => void }) {
  const { name, bytes, block } = attachment;
  const { data, mimeType } = block;
  return (
    <span className={styles.chip}>
      {typeof data === "string" && typeof mimeType === "string" ? (
        <img className={styles.thumbnail} alt="" src={`data:${mimeType};base64,${data}`} />
      ) : (
        <Icon name="file" />
      )}
      <span className={styles.chipText}>
        <span className={styles.chipName}>{name}</span>
        <span className={styles.chipSize}>{bytesText(bytes)}</span>
      </span>
      <CloseButton size="sm" aria-label={`Remove ${name}`} onClick={onRemove} />
    </span>
  );
}

/** The provider that answers. It is a setting of the gateway, so a change applies to all sessions. */
function ModelSelect() {
  const { client, queries } = useServices();
  const toast = useToast();
  const providers = useQuery(providerQueries.list(client)).data ?? [];
  const active = providers.find((provider) => provider.active);
  const change = useMutation({
    mutationFn: (id: string) => client.providers.setActive(id),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["providers"] }),
  });
  if (providers.length === 0) return null;
  return (
    <NativeSelect
      className={styles.model}
      size="xs"
      aria-label="Model"
      title="The model that answers in all sessions"
      value={change.isPending ? change.variables : (active?.id ?? "")}
      onChange={({ currentTarget }) => change.mutate(currentTarget.value)}
      data={[
        ...(active === undefined ? [{ value: "", label: "No model is active" }] : []),
        ...providers.map((provider) => ({ value: provider.id, label: providerText(provider) })),
      ]}
    />
  );
}
