/**
 * From a plugin's answer to an outcome. The wire has checked the frame; here its meaning is read, once for
 * all dialects: what counts as success, whose words an error carries, and how much of them is kept.
 */
import type {
  ErrorCode,
  InstrumentResult,
  InvocationError,
  Json,
  JsonObject,
  SideResponse,
  TerminalStatus,
  VaiResponse,
} from "@backplane/contract";

export interface Answer {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
}

const MESSAGE_CHARS = 4_000;
const MALFORMED_RESULT = "MALFORMED_RESULT";

export function acceptVai(response: VaiResponse): Answer {
  if (!response.ok) {
    const { code, message } = response.error;
    return failed("plugin_protocol_error", `The plugin answered ok:false: ${clip(message)}`, {
      plugin_code: clip(code),
      plugin_message: clip(message),
    });
  }
  const { status } = response.body;
  const result = response.body.result ?? null;
  switch (status) {
    case "succeeded":
    case "ack":
      return { status: "succeeded", result, error: null };
    case "failed":
      return { status, result, error: { code: "plugin_failed", ...wordsOf(result, "The plugin failed.") } };
    case "retryable_failure": {
      const error = wordsOf(result, "The plugin asks to be called again later.");
      return { status, result, error: { code: "plugin_retryable", ...error } };
    }
    case "cancelled":
      return {
        status,
        result,
        error: { code: "cancelled", message: "The plugin ended the call as cancelled." },
      };
  }
}

/** side.execute: the output becomes a tool result, so that both dialects answer a tool call alike. */
export function acceptSide(response: SideResponse): Answer {
  if (response.status === "error") {
    const { code, message } = response.error!;
    return failed("plugin_failed", clip(message), {
      plugin_code: clip(code),
      ...(response.metadata === undefined ? {} : { metadata: response.metadata }),
    });
  }
  const output = response.output ?? null;
  const text = typeof output === "string" ? output : JSON.stringify(output);
  const result: JsonObject = {
    content: output === null ? [] : [{ type: "text", text }],
    structured_output: output,
    is_error: false,
  };
  if (response.metadata !== undefined) result.metadata = response.metadata;
  return { status: "succeeded", result, error: null };
}

/** instr.result: stdout is what the model reads; an error keeps what was printed, and its own code. */
export function acceptInstrument({ data, error, status }: InstrumentResult): Answer {
  const printed = typeof data === "object" && data !== null && !Array.isArray(data) ? data : {};
  const isStdio = typeof printed.stdout === "string" || typeof printed.stderr === "string";
  const texts = isStdio
    ? [printed.stdout, printed.stderr]
    : [typeof data === "string" ? data : JSON.stringify(data)];
  const content = texts.flatMap((text) =>
    typeof text === "string" && text !== "" && text !== "null" ? [{ type: "text", text }] : [],
  );
  const result: JsonObject = { content, structured_output: data ?? null, is_error: status === "Error" };
  if (status === "Success") return { status: "succeeded", result, error: null };
  const { code = "ERROR", details, message = "The instrument failed." } = error ?? {};
  return {
    status: "failed",
    result,
    error: {
      // How our host programs report an answer of the author's code that they cannot pass on.
      code: code === MALFORMED_RESULT ? "malformed_response" : "plugin_failed",
      message: clip(message),
      details: { plugin_code: clip(code), ...(details === undefined || details === null ? {} : { details }) },
    },
  };
}

function failed(code: ErrorCode, message: string, details: JsonObject): Answer {
  return { status: "failed", result: null, error: { code, message, details } };
}

/** The plugin's own words: result.error, result.message, or the text of its content. */
function wordsOf(result: Json, otherwise: string): { message: string; details?: JsonObject } {
  if (typeof result === "string" && result !== "") return { message: clip(result) };
  if (typeof result !== "object" || result === null || Array.isArray(result)) return { message: otherwise };
  const { error, message, content } = result;
  if (typeof error === "string" && error !== "") return { message: clip(error) };
  if (typeof error === "object" && error !== null && !Array.isArray(error)) {
    const details: JsonObject = typeof error.code === "string" ? { plugin_code: clip(error.code) } : {};
    if (typeof error.message === "string" && error.message !== "") {
      return { message: clip(error.message), details };
    }
  }
  if (typeof message === "string" && message !== "") return { message: clip(message) };
  if (Array.isArray(content)) {
    const texts: string[] = [];
    for (const block of content) {
      if (typeof block === "object" && block !== null && !Array.isArray(block)) {
        if (typeof block.text === "string") texts.push(block.text);
      }
    }
    if (texts.length > 0) return { message: clip(texts.join("\n")) };
  }
  return { message: otherwise };
}

function clip(text: string): string {
  return text.length > MESSAGE_CHARS ? `${text.slice(0, MESSAGE_CHARS)}…` : text;
}
