/**
 * Messages of this tab that are not on the tape yet. Each has an idempotency key, so that a message whose response was
 * lost is sent again without being stored twice. They survive a reload of the tab.
 *
 *   sending → stored (removed once the tape shows its entry)
 *           → waiting (no connection, or the gateway is busy) → sending …
 *           → rejected (the gateway refused it; the person decides)
 */
import type { Client } from "@backplane/client";
import { codeOf, isObject, type JsonObject, toBackplaneError } from "@backplane/contract";
import type { LiveConnection } from "./live.ts";
import type { SessionAddress } from "./sessions.ts";

export interface OutgoingMessage {
  key: string;
  text: string;
  attachments: readonly JsonObject[];
  at: string;
  /** Set for the first message of a new session, which is then created with this title. */
  title: string | null;
  state: "sending" | "waiting" | "rejected" | "stored";
  error: unknown;
  /** The entry of a stored message. */
  entry_id: number | null;
}

export interface Outbox {
  messages: () => readonly OutgoingMessage[];
  /** Returns an unsubscribe function. */
  onChange: (listener: () => void) => () => void;
  send: (message: Pick<OutgoingMessage, "text" | "attachments" | "title">) => void;
  /** Sends rejected and waiting messages again. */
  retry: () => void;
  /** Removes a message that is not stored, and returns it. */
  discard: (key: string) => OutgoingMessage | undefined;
  /** Forgets the messages that the tape shows. */
  settle: (last_entry_id: number) => void;
  close: () => void;
}

export interface OutboxOptions {
  address: SessionAddress;
  client: Pick<Client, "sessions">;
  live: Pick<LiveConnection, "state" | "onState">;
  storage: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  /** Called after the gateway has stored a message. */
  onStored: () => void;
  newKey?: () => string;
}

const RETRY_MS = 2_000;
const UNSENT: ReadonlySet<string | undefined> = new Set([
  "daemon.unreachable",
  "gateway_stopping",
  undefined,
]);

export function createOutbox(options: OutboxOptions): Outbox {
  const { address, client, live, storage, onStored } = options;
  const newKey = options.newKey ?? (() => crypto.randomUUID());
  const { session_id, workspace } = address;
  const storage_key = `outbox ${workspace} ${session_id}`;
  const listeners = new Set<() => void>();
  let messages: readonly OutgoingMessage[] = readStored(storage, storage_key);
  let sending = false;
  let closed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function setMessages(next: readonly OutgoingMessage[]): void {
    messages = next;
    const unsent = messages.filter(({ state }) => state !== "stored");
    try {
      if (unsent.length === 0) storage.removeItem(storage_key);
      else storage.setItem(storage_key, JSON.stringify(unsent));
    } catch {
      // The storage is full. The messages are then lost if the tab is reloaded before they are sent.
    }
    for (const listener of listeners) listener();
  }

  function update(key: string, fields: Partial<OutgoingMessage>): void {
    setMessages(messages.map((message) => (message.key === key ? { ...message, ...fields } : message)));
  }

  /** Sends one message at a time, so that the tape has them in the order in which they were written. */
  async function deliver(): Promise<void> {
    if (sending || closed) return;
    sending = true;
    clearTimeout(timer);
    try {
      for (;;) {
        const next = messages.find(({ state }) => state === "sending" || state === "waiting");
        if (next === undefined || closed) return;
        if (!(await deliverOne(next))) return;
      }
    } finally {
      sending = false;
    }
  }

  /** Returns whether the following messages may be sent. */
  async function deliverOne(message: OutgoingMessage): Promise<boolean> {
    const { key, text, attachments, title } = message;
    update(key, { state: "sending", error: null });
    try {
      if (title !== null)
        await client.sessions.create(
          { session_id, workspace, metadata: { title } },
          { idempotency_key: `${key}-session` },
        );
      const body = attachments.length === 0 ? { text } : { text, attachments: [...attachments] };
      const { entry_id } = await client.sessions.message(
        session_id,
        body,
        { workspace },
        { idempotency_key: key },
      );
      update(key, { state: "stored", entry_id });
      onStored();
      return true;
    } catch (error) {
      const unsent = UNSENT.has(codeOf(error)) || toBackplaneError(error).retryable;
      update(key, { state: unsent ? "waiting" : "rejected", error });
      if (unsent) timer = setTimeout(() => void deliver(), RETRY_MS);
      return false;
    }
  }

  const unsubscribe = live.onState(() => {
    if (live.state() === "live") void deliver();
  });
  void deliver();

  return {
    messages: () => messages,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send({ text, attachments, title }) {
      const at = new Date().toISOString();
      const message = { key: newKey(), text, attachments, title, at, error: null, entry_id: null };
      setMessages([...messages, { ...message, state: "sending" }]);
      void deliver();
    },
    retry() {
      setMessages(
        messages.map((message) =>
          message.state === "rejected" ? { ...message, state: "waiting" as const } : message,
        ),
      );
      void deliver();
    },
    discard(key) {
      const discarded = messages.find((message) => message.key === key && message.state !== "stored");
      if (discarded !== undefined) setMessages(messages.filter((message) => message !== discarded));
      return discarded;
    },
    settle(last_entry_id) {
      const remaining = messages.filter(({ entry_id }) => entry_id === null || entry_id > last_entry_id);
      if (remaining.length < messages.length) setMessages(remaining);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      unsubscribe();
    },
  };
}

function readStored(storage: OutboxOptions["storage"], key: string): OutgoingMessage[] {
  try {
    const stored: unknown = JSON.parse(storage.getItem(key) ?? "[]");
    if (!Array.isArray(stored)) return [];
    return (stored as OutgoingMessage[]).filter(isObject).map((message) => ({
      ...message,
      state: message.state === "rejected" ? "rejected" : "waiting",
      error: null,
    }));
  } catch {
    return [];
  }
}
