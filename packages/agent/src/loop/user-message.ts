/**
 * A user's message as a line of the tape and as an event of the bus, which are one thing: it is told after it is
 * written. An adapter that has published it itself is not told again.
 */

import type { BusEvent, JsonObject } from "@backplane/contract";
import type { Appended, OnceKey, TapeWrite, UserMessage } from "@backplane/ports";
import { entryFor, type KernelPort, type TapeItem } from "@backplane/session";
import type { BeginDeps, TurnRequest } from "./begin-turn.ts";
import type { Turn } from "./turn.ts";

export interface SaidMessage {
  items: TapeItem[];
  event_id: string;
  publish: () => void;
}

/** `told` hears of its event just before the bus does. */
export function sayMessage(
  port: KernelPort,
  { key, message, event }: TurnRequest,
  told: (event_id: string) => void,
): SaidMessage {
  if (event !== undefined) return { items: [itemOf(event)], event_id: event.id, publish() {} };
  if (message === null) return { items: [], event_id: "", publish() {} };
  const { text, attachments } = message;
  const payload = { text, ...(attachments === undefined ? {} : { attachments }) };
  const to = { session_id: key.session_id, scope: key.scope };
  const prepared = port.prepare("user.message.received", payload, to);
  const publish = () => {
    told(prepared.event.id);
    prepared.publish();
  };
  return { items: [itemOf(prepared.event)], event_id: prepared.event.id, publish };
}

/** Onto the tape of a turn that runs. Under a key it is a write of its own, which takes the key along. */
export async function writeMessage(
  { persister, sessions }: Pick<BeginDeps, "persister" | "sessions">,
  turn: Turn,
  { items, event_id }: SaidMessage,
  once: OnceKey | undefined,
): Promise<Appended> {
  if (once === undefined) return await persister.append(turn.key, items);
  const keyed = { ...once, answer: { run_id: turn.run.id, event_id } };
  const write = (tape: TapeWrite) => sessions.appendTape(tape, keyed);
  return (await persister.appendInTransaction(turn.key, items, write))!;
}

export function messageOf({ text, attachments }: BusEvent<"user.message.received">["payload"]): UserMessage {
  return attachments === undefined ? { text } : { text, attachments: attachments as JsonObject[] };
}

function itemOf(event: BusEvent): TapeItem {
  return { entry: entryFor(event)!.entry, event };
}
