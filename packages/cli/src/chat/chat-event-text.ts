/** Formats a chat event for the terminal. Text from models, tools and users is sanitized. */
import { isObject } from "@backplane/contract";
import type { Output } from "../terminal/output.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";
import type { ChatEvent } from "./chat-events.ts";

const MAX_ARGUMENTS_LENGTH = 160;

/** Null if there is nothing to show. `names` maps call ids to tool names, since a result contains only the call id. */
export function chatEventText(out: Output, chat_event: ChatEvent, names: Map<string, string>): string | null {
  switch (chat_event.kind) {
    case "user_message":
      return `${out.paint("bold", "you:")} ${indent(chat_event.text)}${attachmentsText(chat_event.attachments)}`;
    case "answer":
      return chat_event.text === "" ? null : `${out.paint("bold", "assistant:")} ${indent(chat_event.text)}`;
    case "model_text":
      // Without tool calls this text is the answer, which has its own event.
      return chat_event.calls === 0 || chat_event.text === ""
        ? null
        : `${out.paint("bold", "assistant:")} ${indent(chat_event.text)}`;
    case "tool_call":
      names.set(chat_event.id, chat_event.name);
      return `  ${out.paint("dim", "→")} ${callLine(chat_event.name, chat_event.args)}`;
    case "tool_result": {
      const mark = chat_event.ok ? out.paint("green", "✓") : out.paint("red", "✗");
      return `  ${mark} ${briefLine(toolName(names, chat_event.id), chat_event.brief)}`;
    }
    case "tool_error":
      return `  ${out.paint("yellow", "⊘")} ${plainLine(`${toolName(names, chat_event.id)}: ${chat_event.why}: ${chat_event.brief}`)}`;
    case "session_start":
      return out.paint("dim", "── start of the conversation ──");
    case "handoff": {
      const mark = out.paint("dim", plainLine(`── handoff: ${chat_event.name} ──`));
      return chat_event.summary === "" ? mark : `${mark}\n  ${indent(chat_event.summary)}`;
    }
    case "compaction": {
      const sizes =
        chat_event.before === null || chat_event.after === null
          ? ""
          : ` (${chat_event.before} → ${chat_event.after} tokens)`;
      const mark = out.paint("dim", `── compacted${sizes} ──`);
      return chat_event.summary === "" ? mark : `${mark}\n  ${indent(chat_event.summary)}`;
    }
    case "interrupt":
      return out.paint("yellow", "── interrupted ──");
    case "error":
      return out.paint("red", plainLine(`The turn failed: ${chat_event.message}`));
    case "delta":
    case "approval_request":
    case "approval_cancelled":
    case "caught_up":
      return null;
  }
}

/** For a sub-agent the goal is shown instead of all arguments. */
function callLine(name: string, args: unknown): string {
  const goal = isObject(args) ? args.goal : undefined;
  if (name === "agent" && typeof goal === "string") return plainLine(`sub-agent: ${goal}`);
  const text = JSON.stringify(args ?? {});
  const short = text.length > MAX_ARGUMENTS_LENGTH ? `${text.slice(0, MAX_ARGUMENTS_LENGTH)}…` : text;
  return plainLine(text === "{}" ? name : `${name} ${short}`);
}

/** Some tools start the summary with their own name. */
function briefLine(name: string, brief: string): string {
  return plainLine(brief.startsWith(`${name}:`) ? brief : `${name}: ${brief || "done"}`);
}

function toolName(names: Map<string, string>, id: string): string {
  return names.get(id) ?? id;
}

function indent(text: string): string {
  return plainText(text).trimEnd().replaceAll("\n", "\n  ");
}

function attachmentsText(count: number): string {
  return count === 0 ? "" : ` (+${count} attached)`;
}
