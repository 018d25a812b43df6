import { EVENT_TEXT_CHARS } from "../vocabulary/limits.ts";
import { REDACTED } from "./redact.ts";

/** Delegated tokens and API keys that a user may have pasted into a message. Results of tools are already redacted. */
const TOKENS = /(?:vai_dlg_|bpk_)[A-Za-z0-9_-]{20,}/g;

/** Prepares text of a conversation for an event: removes delegated tokens and API keys, and truncates at a limit. */
export function eventText(text: string): string {
  // The text is first truncated to twice the limit, so that the cost is bounded and a token that crosses the limit is
  // still found.
  const clean = text.slice(0, EVENT_TEXT_CHARS * 2).replaceAll(TOKENS, REDACTED);
  return clean.length <= EVENT_TEXT_CHARS ? clean : `${clean.slice(0, EVENT_TEXT_CHARS - 1)}…`;
}
