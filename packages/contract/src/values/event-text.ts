import { EVENT_TEXT_CHARS } from "../vocabulary/limits.ts";
import { replaceTokens } from "./gateway-tokens.ts";
import { REDACTED } from "./redact.ts";

/**
 * Prepares text of a conversation for an event: removes tokens of the gateway, which a user may have pasted into a
 * message, and truncates at a limit.
 */
export function eventText(text: string): string {
  // The text is first truncated to twice the limit, so that the cost is bounded and a token that crosses the limit is
  // still found.
  const clean = replaceTokens(text.slice(0, EVENT_TEXT_CHARS * 2), REDACTED);
  return clean.length <= EVENT_TEXT_CHARS ? clean : `${clean.slice(0, EVENT_TEXT_CHARS - 1)}…`;
}
