/**
 * Converts the conversation into the form that the Messages API requires: alternating user and assistant
 * turns that start with the user, all tool results of a step together at the start of the next user turn, and
 * no empty text.
 */
import type { Anthropic } from "@anthropic-ai/sdk";
import {
  type AcceptedMedia,
  type GenerateRequest,
  type Json,
  type JsonObject,
  mediaPieces,
  pieceText,
  type ThinkingBlock,
  textOf,
} from "@backplane/sdk/kernel";

type Message = GenerateRequest["history"][number];
type Block = Anthropic.ContentBlockParam;

type MediaBlock = Anthropic.TextBlockParam | Anthropic.ImageBlockParam | Anthropic.DocumentBlockParam;

/** The blocks that can carry a cache marker. */
type UserBlock = MediaBlock | Anthropic.ToolResultBlockParam;

type Turn = { role: "user"; content: UserBlock[] } | { role: "assistant"; content: Block[] };

export function toTurns(history: readonly Message[], accepted: AcceptedMedia): Turn[] {
  const turns: Turn[] = [];
  for (const message of history) {
    const turn = toTurn(message, accepted);
    if (turn.content.length === 0) continue;
    const last = turns.at(-1);
    if (last?.role === "user" && turn.role === "user") last.content.push(...turn.content);
    else if (last?.role === "assistant" && turn.role === "assistant") last.content.push(...turn.content);
    else turns.push(turn);
  }
  if (turns[0]?.role !== "user") {
    turns.unshift({ role: "user", content: [{ type: "text", text: "(The conversation continues.)" }] });
  }
  return turns;
}

/** Marks the end of the last user turn, so that the next call reads everything up to there from the cache. */
export function markLastTurn(turns: readonly Turn[]): void {
  const last = turns.findLast((turn) => turn.role === "user")?.content.at(-1);
  if (last !== undefined) last.cache_control = { type: "ephemeral" };
}

function toTurn(message: Message, accepted: AcceptedMedia): Turn {
  switch (message.role) {
    case "user":
      return { role: "user", content: toBlocks(message.content, message.attachments ?? [], accepted) };
    case "tool":
      return {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: toAcceptedId(message.tool_call_id),
            content: toBlocks(message.content, [], accepted),
            ...(message.is_error === true ? { is_error: true } : {}),
          },
        ],
      };
    case "assistant": {
      const text = textOf(message.content).trimEnd();
      const calls = (message.tool_calls ?? []).map(
        ({ id, name, args }): Block => ({ type: "tool_use", id: toAcceptedId(id), name, input: args }),
      );
      const thinking = (message.thinking ?? []).flatMap(toThinkingBlocks);
      const answer: Block[] = text === "" ? [] : [{ type: "text", text }];
      return { role: "assistant", content: [...thinking, ...answer, ...calls] };
    }
  }
}

export const SIGNATURE_SEAL = "anthropic:";
export const REDACTED_SEAL = "anthropic-redacted:";

/** Whether the API accepts the block: it refuses thinking that its own model did not sign. */
export function isOwnThinking(block: ThinkingBlock): boolean {
  return toThinkingBlocks(block).length > 0;
}

function toThinkingBlocks({ text, seal = "" }: ThinkingBlock): Block[] {
  if (seal.startsWith(REDACTED_SEAL))
    return [{ type: "redacted_thinking", data: seal.slice(REDACTED_SEAL.length) }];
  if (!seal.startsWith(SIGNATURE_SEAL)) return [];
  return [{ type: "thinking", thinking: text, signature: seal.slice(SIGNATURE_SEAL.length) }];
}

function toBlocks(content: Json, attachments: readonly JsonObject[], accepted: AcceptedMedia): MediaBlock[] {
  return mediaPieces(content, attachments, accepted).flatMap((piece): MediaBlock[] => {
    if (piece.type === "image") {
      const { url, media_type, data } = piece;
      if (data === undefined) return [{ type: "image", source: { type: "url", url } }];
      return [{ type: "image", source: { type: "base64", data, media_type: media_type as "image/png" } }];
    }
    if (piece.type === "document") {
      const { media_type, data, name } = piece;
      return [{ type: "document", source: { type: "base64", media_type, data }, title: name }];
    }
    const text = pieceText(piece);
    return text.trim() === "" ? [] : [{ type: "text", text }];
  });
}

/** The history may contain call ids of another vendor's model, with characters that this API refuses. */
function toAcceptedId(id: string): string {
  return id.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
}
