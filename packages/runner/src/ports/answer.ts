/** How a call ended, as a dialect or the runner itself reports it before redaction. */
import {
  type BackplaneError,
  detailsWithFix,
  type InvocationError,
  type Json,
  type JsonObject,
  type TerminalStatus,
} from "@backplane/contract";

export interface PluginAnswer {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
}

export function failedAnswer(error: BackplaneError): PluginAnswer {
  const { code, message } = error;
  const details = detailsWithFix(error);
  return {
    status: "failed",
    result: null,
    error: details === undefined ? { code, message } : { code, message, details: details as JsonObject },
  };
}

const MESSAGE_CHARS = 4_000;

/** Truncates text from a plugin for use in an error. */
export function clipMessage(text: string): string {
  return text.length > MESSAGE_CHARS ? `${text.slice(0, MESSAGE_CHARS)}…` : text;
}
